// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"regexp"
	"strings"
)

// marker is the beginning or the end of a block whose text comes from data:
//
//	<!-- figures: NAME -->
//	...
//	<!-- /figures -->
//
// Both may also stand within a line: 0.98 ms between them is replaced there.
//
// A name has small letters, so that a page may write NAME in an example.
var marker = regexp.MustCompile(`(?s)<!-- figures: ([a-z0-9/-]+) -->(.*?)<!-- /figures -->`)

var beginning = regexp.MustCompile(`<!-- figures: [a-z0-9/-]+ -->`)

// HasBlocks says whether a page has any block.
func HasBlocks(page []byte) bool { return beginning.Match(page) }

// Blocks replaces the text of all blocks of a page by what text says for their names and
// their present text. A block that begins with a new line has its text in lines of its own. An
// error names a block that is not known, or that has no end.
func Blocks(page []byte, text func(name, present string) (string, error)) ([]byte, error) {
	if begun, ended := len(beginning.FindAll(page, -1)), len(marker.FindAll(page, -1)); begun != ended {
		return nil, fmt.Errorf("%d blocks begin with <!-- figures: NAME --> and %d have an end; write <!-- /figures --> behind each", begun, ended)
	}
	var wrong error
	out := marker.ReplaceAllStringFunc(string(page), func(block string) string {
		parts := marker.FindStringSubmatch(block)
		got, err := text(parts[1], parts[2])
		if err != nil {
			wrong = fmt.Errorf("block %s: %w", parts[1], err)
			return block
		}
		got = strings.Trim(got, "\n")
		if strings.HasPrefix(parts[2], "\n") {
			got = "\n" + got + "\n"
		}
		return "<!-- figures: " + parts[1] + " -->" + got + "<!-- /figures -->"
	})
	return []byte(out), wrong
}
