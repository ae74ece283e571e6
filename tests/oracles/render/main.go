// Program render is the reference for manifest templates: Go's own text/template with the twelve documented functions.
//
// It reads one JSON object {"template": "...", "data": {...}} per line and answers each with one line:
// {"ok": true, "result": "..."} or {"ok": false, "error": "..."}.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"hopline.dev/tests/oracles/lines"
)

type request struct {
	Template string         `json:"template"`
	Data     map[string]any `json:"data"`
}

func main() {
	lines.Serve(func(line []byte) (any, error) {
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		var asked request
		if err := decoder.Decode(&asked); err != nil {
			return nil, err
		}
		return render(asked.Template, plain(asked.Data).(map[string]any))
	})
}

func render(text string, data map[string]any) (string, error) {
	parsed, err := template.New("manifest").Funcs(documented).Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		return "", err
	}
	return out.String(), nil
}

// plain turns json.Number into what a Go program would hold: int without a point or an exponent, else float64.
func plain(value any) any {
	switch typed := value.(type) {
	case map[string]any:
		for key, inner := range typed {
			typed[key] = plain(inner)
		}
	case []any:
		for at, inner := range typed {
			typed[at] = plain(inner)
		}
	case json.Number:
		if !strings.ContainsAny(typed.String(), ".eE") {
			if number, err := typed.Int64(); err == nil {
				return int(number)
			}
		}
		number, err := typed.Float64()
		if err != nil {
			panic(fmt.Sprintf("number %s of the data: %v", typed, err))
		}
		return number
	}
	return value
}
