// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Compare compares files below root with their wanted text, and returns a line for each
// that differs: FILE:LINE of the first difference, the present and the wanted line.
// names are the files' in the order in which they are compared.
func Compare(root string, names []string, want map[string][]byte) (problems []string) {
	for _, name := range names {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v; run make figures", name, err))
			continue
		}
		if bytes.Equal(got, want[name]) {
			continue
		}
		if bytes.Contains(got[:min(len(got), 200)], []byte("<svg")) {
			problems = append(problems, fmt.Sprintf("%s:1: the picture is not the one that the data makes; run make figures", name))
			continue
		}
		line, is, should := firstDifference(got, want[name])
		problems = append(problems, fmt.Sprintf("%s:%d: %q, the data says %q; run make figures", name, line, short(is), short(should)))
	}
	return problems
}

// firstDifference is the number of the first line that differs, and the line on both sides;
// nil beyond the end.
func firstDifference(a, b []byte) (line int, left, right []byte) {
	as, bs := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	for i := range max(len(as), len(bs)) {
		left, right = nil, nil
		if i < len(as) {
			left = as[i]
		}
		if i < len(bs) {
			right = bs[i]
		}
		if !bytes.Equal(left, right) {
			return i + 1, left, right
		}
	}
	return len(as), nil, nil
}

// short is at most 160 bytes of a line, for messages.
func short(line []byte) string {
	if len(line) <= 160 {
		return string(line)
	}
	return string(line[:160]) + "..."
}
