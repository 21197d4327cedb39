// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
)

// unmeasured are the keys of a scenario that do not change the measurement: its
// expectations, and the texts about it.
var unmeasured = [][]byte{[]byte("expect:"), []byte("paper:"), []byte("name:")}

// Digest of the text of a scenario file: the first 16 digits of a SHA-256 of its lines
// without comments, without expectations, and without what a paper says.
func Digest(text []byte) string {
	sum := sha256.New()
	left := false
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, " \t\r\n")
		first := bytes.TrimLeft(line, " ")
		if len(first) == 0 || first[0] == '#' {
			continue
		}
		if len(first) == len(line) { // a key of the file itself
			left = false
			for _, key := range unmeasured {
				left = left || bytes.HasPrefix(line, key)
			}
		}
		if !left {
			sum.Write(append(line, '\n'))
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}
