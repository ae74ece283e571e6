package main

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/blang/semver/v4"
)

// documented holds the functions that the platform's controller offers to manifests, by their documented meaning.
var documented = template.FuncMap{
	"vgt":                 func(a, b string) bool { return version(a).GT(version(b)) },
	"vlt":                 func(a, b string) bool { return version(a).LT(version(b)) },
	"veq":                 func(a, b string) bool { return version(a).EQ(version(b)) },
	"vgte":                func(a, b string) bool { return version(a).GTE(version(b)) },
	"vlte":                func(a, b string) bool { return version(a).LTE(version(b)) },
	"vne":                 func(a, b string) bool { return version(a).NE(version(b)) },
	"defaultFalse":        defaultFalse,
	"b64encode":           func(value any) string { return base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(value))) },
	"split":               func(text, by string) []string { return strings.Split(text, by) },
	"stringToSliceString": quotedList,
	"int":                 integer,
	"indent":              func(text, prefix string) string { return strings.ReplaceAll(text, "\n", "\n"+prefix) },
}

// version is tolerant; what it cannot read is 0.0.0.
func version(text string) semver.Version {
	parsed, err := semver.ParseTolerant(text)
	if err != nil {
		return semver.Version{}
	}
	return parsed
}

// defaultFalse answers "true" only for what prints as true.
func defaultFalse(value any) string {
	if fmt.Sprint(value) == "true" {
		return "true"
	}
	return "false"
}

// quotedList makes ["a","b"] of "a,b", and [] of nothing.
func quotedList(text, by string) string {
	if text == "" {
		return "[]"
	}
	words := strings.Split(text, by)
	for at, word := range words {
		words[at] = `"` + word + `"`
	}
	return "[" + strings.Join(words, ",") + "]"
}

// integer reads a decimal number of 64 bits; anything else is 0.
func integer(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return number
}
