// Program read is the reference for YAML: texts split and read as kubectl does it, with sigs.k8s.io/yaml.
//
// It reads one JSON object {"text": "..."} per line and answers each with one line: {"ok": true, "result": [...]}, the
// JSON of every document that is not empty, or {"ok": false, "error": "..."}.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"

	"hopline.dev/tests/oracles/lines"
)

// lookAhead is how far kubectl looks into a stream to tell JSON from YAML, in bytes.
const lookAhead = 4096

type request struct {
	Text string `json:"text"`
}

func main() {
	lines.Serve(func(line []byte) (any, error) {
		var asked request
		if err := json.Unmarshal(line, &asked); err != nil {
			return nil, err
		}
		return read(asked.Text)
	})
}

func read(text string) ([]json.RawMessage, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), lookAhead)
	documents := []json.RawMessage{}
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		document = bytes.TrimSpace(document)
		if len(document) != 0 && !bytes.Equal(document, []byte("null")) {
			documents = append(documents, bytes.Clone(document))
		}
	}
}
