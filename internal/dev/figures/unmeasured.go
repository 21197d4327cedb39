// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// UnmeasuredList is the file of the folder that lists the pages and blocks that are older than the
// data, a line each: FILE or FILE#BLOCK, and why. They are left as they are, and make check says
// so.
const UnmeasuredList = "unmeasured.txt"

// ReadUnmeasured reads that file, if there is one: the reason by page or block.
func ReadUnmeasured(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	list := map[string]string{}
	for line := range bytes.Lines(text) {
		if name, why, found := strings.Cut(strings.TrimSpace(string(line)), " "); found && name != "#" {
			list[name] = why
		}
	}
	return list, err
}

// Prune takes pages and blocks whose runs are all there off that file.
func Prune(file string, done []string) error {
	if len(done) == 0 {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var kept []byte
	for line := range bytes.Lines(text) {
		if name, _, _ := strings.Cut(string(line), " "); !slices.Contains(done, name) {
			kept = append(kept, line...)
		}
	}
	return os.WriteFile(file, kept, 0o644)
}
