// SPDX-License-Identifier: Apache-2.0

package notice

import "testing"

func FuzzNumber(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 8, 0, 1, 0, 5, 0, 0, 0}) // nsid 5
	f.Add([]byte{0, 0, 0, 0, 6, 0, 1, 0, 5, 0})       // cut off
	f.Fuzz(func(t *testing.T, data []byte) {
		if nsid, ok := Number(data); !ok && nsid != 0 {
			t.Errorf("number %d with a refusal", nsid)
		}
	})
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		nsid int
		ok   bool
	}{
		{"five", []byte{0, 0, 0, 0, 8, 0, 1, 0, 5, 0, 0, 0}, 5, true},
		{"none", []byte{0, 0, 0, 0, 8, 0, 1, 0, 255, 255, 255, 255}, -1, true},
		{"another attribute", []byte{0, 0, 0, 0, 8, 0, 2, 0, 5, 0, 0, 0}, 0, false},
		{"short", []byte{0, 0}, 0, false},
		{"empty", nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if nsid, ok := Number(c.data); nsid != c.nsid || ok != c.ok {
				t.Errorf("got %d %v, want %d %v", nsid, ok, c.nsid, c.ok)
			}
		})
	}
}
