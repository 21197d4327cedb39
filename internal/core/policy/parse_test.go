// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/test/boundtest"
)

func TestParseRate(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Rate
	}{
		{"20mbit", 20e6}, {"1.5gbit", 15e8}, {"800kbit", 8e5}, {"64000bit", 64000}, {"2tbit", 2e12},
		{"20Mbit", 20e6}, {"20MBIT", 20e6}, {"20Mbit/s", 20e6}, {"20 Mbit/s", 20e6}, {" 20mbit\n", 20e6},
		{"8kibit", 8192}, {"10Mibit", 10 << 20}, {"1gibit", 1 << 30}, {"1tibit", 1 << 40},
		{"20M", 20e6}, {"500k", 5e5}, {"500K", 5e5}, {"1G", 1e9}, {"1T", 1e12}, {"1P", 1e15},
		{"10Mi", 10 << 20}, {"64Ki", 64 << 10}, {"1Gi", 1 << 30}, {"1g", 1e9},
		{"1.1Mi", 1153434}, // 1153433.6: powers of two are rounded
		{"2500000", 25e5}, {"2.5e6", 25e5}, {"1E6", 1e6}, {"+3e3", 3000}, {"25e-1M", 25e5},
		{".5mbit", 5e5}, {"5.mbit", 5e6}, {"007mbit", 7e6},
		{"1.234567890123tbit", 1234567890123},
		{"1000", MinRate}, {"1kbit", MinRate}, {"1000tbit", MaxRate},
	} {
		got, err := ParseRate(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseRate(%q) = %d, %v; want %d", tt.in, got, err, tt.want)
		}
	}
}

func TestParseAmount(t *testing.T) {
	for _, tt := range []struct {
		in      string
		want    Amount
		compact string
		text    string
	}{
		{"", Amount{}, "", "none"},
		{"none", Amount{}, "", "none"},
		{" None ", Amount{}, "", "none"},
		{"20M", Amount{Rate: 20e6}, "20mbit", "20 Mbit/s"},
		{"25%", Amount{Percent: 25}, "25%", "25 %"},
		{"12.5 %", Amount{Percent: 12.5}, "12.5%", "12.5 %"},
		{"33.3333%", Amount{Percent: 33.3333}, "33.3333%", "33.3333 %"},
		{"0.0001%", Amount{Percent: 0.0001}, "0.0001%", "0.0001 %"},
		{"100%", Amount{Percent: 100}, "100%", "100 %"},
	} {
		got, err := ParseAmount(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseAmount(%q) = %+v, %v; want %+v", tt.in, got, err, tt.want)
			continue
		}
		if got.Compact() != tt.compact || got.String() != tt.text {
			t.Errorf("ParseAmount(%q) prints as %q and %q; want %q and %q", tt.in, got.Compact(), got.String(), tt.compact, tt.text)
		}
	}
}

func TestParseWeight(t *testing.T) {
	for in, want := range map[string]uint32{"1": 1, " 3 ": 3, "10000": MaxWeight} {
		if got, err := ParseWeight(in); err != nil || got != want {
			t.Errorf("ParseWeight(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}

// Everything that is refused, with the very words.
func TestRefusedInput(t *testing.T) {
	rates := []string{
		"", "   ", "fast", "mbit", "NaN", "Inf", "0x10", "20,5mbit", "1,000mbit", "20mbit!", "20 mbit per second", "5 M bit",
		"20mbps", "20MBps", "1.5gbps", "800kbps", "100bps", "20MB/s", "20mb", "20Mb", "20 MB/sec", "2GiB/s", "20b", "3 bytes",
		"20m", "-5mbit", "0", "0mbit", "20", "999bit", "0.5", "1.5", "1000.5bit", "33.33333333mbit",
		"1001tbit", "2P", "18446744073709551615", "99999999999999999999", "9e18", "1e19", "1e999999999", "1e-19",
		"123456789012345678901", "1.0000000000001mbit", "25%", "20mbit\x00", "20mbit\nmin", strings.Repeat("mega", 30),
	}
	amounts := []string{"0", "0%", "-3%", "101%", "1e3%", "%", "x%", "25mbit%", "12.34567%", "20mbps", "unlimited", "25 percent"}
	weights := []string{"", "0", "-1", "10001", "2.5", "heavy", "99999999999999999999"}

	var out strings.Builder
	report := func(kind string, inputs []string, parse func(string) error) {
		for _, in := range inputs {
			err := parse(in)
			var e *invalid.Error
			if !errors.As(err, &e) {
				t.Errorf("%s %q: error is %v; want an *Error", kind, in, err)
				continue
			}
			if e.Msg == "" || e.Remedy == "" || strings.ContainsAny(e.Error(), "\n\x00") {
				t.Errorf("%s %q: not one line with a reason and a remedy: %q", kind, in, e.Error())
			}
			fmt.Fprintln(&out, e)
		}
	}
	report("rate", rates, func(s string) error { _, err := ParseRate(s); return invalid.InField("bandwidth", err) })
	report("amount", amounts, func(s string) error { _, err := ParseAmount(s); return invalid.InField("min", err) })
	report("weight", weights, func(s string) error { _, err := ParseWeight(s); return err })
	golden(t, "refused.txt", out.String())
}

func anyRate(t *rapid.T) Rate {
	// Plain draws are nearly always huge; a scale first makes all sizes likely.
	top := rapid.SampledFrom([]Rate{1e4, 1e6, 1e9, 1e12, MaxRate}).Draw(t, "up to")
	return Rate(rapid.Uint64Range(uint64(MinRate), uint64(top)).Draw(t, "rate"))
}

func TestWhatIsPrintedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRate(t)
		for _, text := range []string{r.Compact(), r.String(), strings.ToUpper(r.Compact())} {
			if back, err := ParseRate(text); err != nil || back != r {
				t.Fatalf("%d prints as %q, which reads as %d, %v", r, text, back, err)
			}
		}
		a := rapid.OneOf(
			rapid.Just(Amount{}),
			rapid.Just(Amount{Rate: r}),
			rapid.Map(rapid.IntRange(1, 100*percentSteps), func(n int) Amount { return Amount{Percent: float64(n) / percentSteps} }),
		).Draw(t, "amount")
		for _, text := range []string{a.Compact(), a.String()} {
			if back, err := ParseAmount(text); err != nil || back != a {
				t.Fatalf("%+v prints as %q, which reads as %+v, %v", a, text, back, err)
			}
		}
		if err := a.Check(); err != nil {
			t.Fatalf("%+v: %v", a, err)
		}
	})
}

// A byte per second is eight bits: the remedies must give what they promise.
func TestRemedyForBytesIsRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"k", "m", "g", "ki", "mi", "gi"}).Draw(t, "prefix")
		number := Rate(rapid.Uint64Range(1, 999_999_999_999).Draw(t, "number"))
		text := fmt.Sprintf("%d.%03d", number/1000, number%1000)
		_, err := ParseRate(text + prefix + "bps")
		var e *invalid.Error
		if !errors.As(err, &e) {
			t.Fatalf("%sbps: %v; want an *Error", prefix, err)
		}
		var asBytes, asBits string
		words := strings.Fields(e.Remedy)
		asBytes, asBits = words[1], words[9]
		one, err1 := ParseRate(asBits)
		eight, err8 := ParseRate(asBytes)
		if err1 != nil || err8 != nil {
			return // out of the bounds of rates, which other tests check
		}
		if diff := int64(eight) - 8*int64(one); diff < -4 || diff > 4 { // powers of two are rounded
			t.Fatalf("%s: %s is not 8 times %s", e.Remedy, asBytes, asBits)
		}
	})
}

func fuzzSeeds(f *testing.F) {
	for _, s := range []string{
		"", "none", "20mbit", "1.5gbit", "800kbit", "20M", "10Mi", "500k", "1G", "2500000", "2.5e6", "25%", "33.3333 %",
		"20 Mbit/s", "20mbps", "20 MB/s", "20m", "-1", "0", "NaN", "1e999", "1,5mbit", ".", "+.e1", "1e", "1E", "99999999999999999999",
		"1.1Mi", "\x00", "20mbit\n", "%", "1%%", "İmbit", "٣mbit",
	} {
		f.Add(s)
	}
}

// checkError checks what holds for every error of a parser.
func checkError(t *testing.T, in string, err error) {
	t.Helper()
	var e *invalid.Error
	if !errors.As(err, &e) || e.Msg == "" || e.Remedy == "" {
		t.Fatalf("%q: %v is no *Error with a reason and a remedy", in, err)
	}
	if line := e.Error(); strings.ContainsAny(line, "\n\r\x00\x1b") || len(line) > 600 {
		t.Fatalf("%q: not one line of sensible length: %q", in, line)
	}
}

func FuzzParseRate(f *testing.F) {
	fuzzSeeds(f)
	boundtest.Seeds[string](f, bound.Label)
	f.Fuzz(func(t *testing.T, in string) {
		boundtest.Hold(t, func() {
			r, err := ParseRate(in)
			if err != nil {
				if r != 0 {
					t.Fatalf("%q: a rate of %d and an error", in, r)
				}
				checkError(t, in, err)
				return
			}
			if r < MinRate || r > MaxRate {
				t.Fatalf("%q: %d is out of bounds", in, r)
			}
			if back, err := ParseRate(r.Compact()); err != nil || back != r {
				t.Fatalf("%q: %d prints as %q, which reads as %d, %v", in, r, r.Compact(), back, err)
			}
		})
	})
}

func FuzzParseAmount(f *testing.F) {
	fuzzSeeds(f)
	boundtest.Seeds[string](f, bound.Label)
	f.Fuzz(func(t *testing.T, in string) {
		boundtest.Hold(t, func() {
			a, err := ParseAmount(in)
			if err != nil {
				checkError(t, in, err)
				return
			}
			if err := a.Check(); err != nil {
				t.Fatalf("%q was taken, but %v", in, err)
			}
			if back, err := ParseAmount(a.Compact()); err != nil || back != a {
				t.Fatalf("%q: %+v prints as %q, which reads as %+v, %v", in, a, a.Compact(), back, err)
			}
		})
	})
}

func FuzzParseWeight(f *testing.F) {
	for _, s := range []string{"1", "10000", "0", "-1", "2.5", "", "1e3", "0x1", "1_0"} {
		f.Add(s)
	}
	boundtest.Seeds[string](f, bound.Label)
	f.Fuzz(func(t *testing.T, in string) {
		boundtest.Hold(t, func() {
			w, err := ParseWeight(in)
			if err != nil {
				checkError(t, in, err)
				return
			}
			if w < 1 || w > MaxWeight {
				t.Fatalf("%q: %d is out of bounds", in, w)
			}
		})
	})
}
