// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestErrorsOfDamagedFilesAreShort: what is wrong with a file is said in a few lines, however
// large the damage is.
func TestErrorsOfDamagedFilesAreShort(t *testing.T) {
	many := "links: [{device: eth0, egress: 100mbit}]\nworkloads:\n"
	for i := range 10000 {
		many += fmt.Sprintf("  w%d: {wieght: 2}\n", i)
	}
	long := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct{ text, want string }{
		"zero bytes, as after a power cut": {strings.Repeat("\x00", 3000), "weir.yaml:1:1: a zero byte, which no text has: the file is damaged; put a copy of it back"},
		"the end is lost":                  {"links: [{device: eth0, egress: 100mbit}]\nworkloads:\n" + strings.Repeat("\x00", 1<<20), "weir.yaml:3:1: a zero byte"},
		"another file":                     {"\x7fELF\x02\x01\x01" + strings.Repeat("\x00\x91\xff", 1<<16), "weir.yaml:1:8: a zero byte"},
		"a long value":                     {"links: [{device: eth0, egress: " + long + "}]", "xxx"},
		"a long key":                       {long + ": 1\nlinks: [{device: eth0, egress: 100mbit}]", "unknown key"},
		"a long name":                      {"links: [{device: eth0, egress: 100mbit}]\nworkloads: {" + long + ": {weight: x}}", "weight"},
		"bad syntax":                       {strings.Repeat("[", 1<<10), ""},
		"a key twice":                      {"links: [{device: eth0, egress: 100mbit}]\nworkloads: {}\nworkloads: {}", "take one of the two out"},
		"many mistakes":                    {many, "(and 9950 more mistakes)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("weir.yaml", []byte(test.text))
			if err == nil {
				t.Fatal("no mistake")
			}
			text := err.Error()
			if lines := strings.Count(text, "\n") + 1; len(text) > lines*1000 || lines > 50 || !strings.Contains(text, test.want) {
				t.Errorf("%d lines, %d bytes: %.700s", lines, len(text), text)
			}
		})
	}
}
