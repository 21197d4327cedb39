// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"strings"
)

//go:embed text
var texts embed.FS

// prose returns a longer text of a page, without its last new line: text/NAME.md. It may have places
// for what is measured, as fmt has them.
func prose(name string) string {
	text, err := texts.ReadFile("text/" + name + ".md")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}
