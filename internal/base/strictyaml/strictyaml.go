// SPDX-License-Identifier: Apache-2.0

// Package strictyaml reads a YAML file whose form is a struct. Files that a person
// edits by hand and gets many messages about at once (weir.yaml, scenarios) are read
// as a tree instead: internal/config, internal/lab/scenario.
package strictyaml

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// Read fills into, a pointer to a struct, from text. A key that the struct does not
// have is an error. An error is one line that begins with name and has the place in
// the file: "plan.yaml: [3:1] unknown field "node"".
func Read(name string, text []byte, into any) error {
	err := read(text, into)
	if err == nil {
		return nil
	}
	line, _, _ := strings.Cut(yaml.FormatError(err, false, false), "\n")
	return fmt.Errorf("%s: %s", name, line)
}

// read makes an error of the library's panics on some broken input, such as an
// unknown tag where a list should be.
func read(text []byte, into any) (err error) {
	defer func() {
		if died := recover(); died != nil {
			err = fmt.Errorf("no YAML that can be read: %v", died)
		}
	}()
	return yaml.UnmarshalWithOptions(text, into, yaml.Strict())
}
