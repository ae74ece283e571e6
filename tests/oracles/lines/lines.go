// Package lines is what both reference programs speak: one JSON value per line in, one per line out.
package lines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Answer is one line of output. Result is what the reference makes of the request, absent when it refuses.
type Answer struct {
	OK     bool   `json:"ok"`
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Serve answers every line of standard input until it ends. A panic of the reference is a refusal, as it would be
// for whoever calls it.
func Serve(answer func(line []byte) (any, error)) {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := encoder.Encode(one(line, answer)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Flush()
	}
}

func one(line []byte, answer func(line []byte) (any, error)) (made Answer) {
	defer func() {
		if reason := recover(); reason != nil {
			made = Answer{Error: fmt.Sprint("panic: ", reason)}
		}
	}()
	result, err := answer(line)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return Answer{OK: true, Result: result}
}
