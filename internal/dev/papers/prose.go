// SPDX-License-Identifier: Apache-2.0

package main

import "embed"

//go:embed text
var texts embed.FS

// prose returns a longer text of a page: text/NAME.md. It may have places for what is measured, as
// fmt has them.
func prose(name string) string {
	text, err := texts.ReadFile("text/" + name + ".md")
	if err != nil {
		panic(err)
	}
	return string(text)
}
