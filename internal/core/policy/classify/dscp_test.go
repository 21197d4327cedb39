// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/invalid/invalidtest"
	"weir/internal/test/boundtest"
)

func TestParseDSCP(t *testing.T) {
	for _, tt := range []struct {
		text string
		want uint8
		err  string
	}{
		{"ef", 46, ""}, {"EF", 46, ""}, {" 46 ", 46, ""}, {"0x2e", 46, ""},
		{"af41", 34, ""}, {"af11", 10, ""}, {"cs0", 0, ""}, {"be", 0, ""}, {"df", 0, ""}, {"default", 0, ""},
		{"cs7", 56, ""}, {"le", 1, ""}, {"va", 44, ""}, {"63", 63, ""}, {"0", 0, ""},
		{"64", 0, `"64": more than the six bits of the field hold; the DSCP of a traffic class byte of 64 is cs2; write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le`},
		{"185", 0, `"185": more than the six bits of the field hold; write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le`},
		{"af44", 0, `"af44": no such code point; write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le`},
		{"-1", 0, `"-1": no such code point; write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le`},
		{"", 0, `"": no such code point; write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le`},
	} {
		got, err := ParseDSCP(tt.text)
		if text := invalidtest.Text(err); got != tt.want || text != tt.err {
			t.Errorf("ParseDSCP(%q) = %d, %s\nwant %d, %s", tt.text, got, text, tt.want, tt.err)
		}
	}
	for value := range uint8(MaxDSCP + 1) {
		if got, err := ParseDSCP(DSCPName(value)); err != nil || got != value {
			t.Errorf("%d is called %s, which is read as %d, %v", value, DSCPName(value), got, err)
		}
	}
}

func FuzzParseDSCP(f *testing.F) {
	for _, seed := range []string{"ef", "46", "0x2e", "af41", "185", ""} {
		f.Add(seed)
	}
	boundtest.Seeds[string](f, bound.Label)
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			value, err := ParseDSCP(text)
			if err != nil {
				return
			}
			if again, err := ParseDSCP(DSCPName(value)); err != nil || again != value || value > MaxDSCP {
				t.Errorf("%q is read as %d, printed as %s, read again as %d, %v", text, value, DSCPName(value), again, err)
			}
		})
	})
}
