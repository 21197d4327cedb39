// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"weir/internal/api"
	"weir/internal/core/delay"
	"weir/internal/core/policy"
)

var update = flag.Bool("update", false, "rewrite testdata/units.json")

// TestUnits keeps the file by which the browser suite holds the page's texts of quantities to
// those of the command line.
func TestUnits(t *testing.T) {
	var cases [][3]any
	for _, bps := range []float64{0, 0.4, 1, 999, 1000, 999_499, 999_999, 16_666_667, 20e6, 1_234_567_890, 9.995e9, 1.5e12} {
		cases = append(cases, [3]any{"rate", bps, policy.Approx(bps)})
	}
	for _, bps := range []uint64{1000, 20e6, 1_500_000, 12_345_678, 40e9} {
		cases = append(cases, [3]any{"limit", bps, policy.Rate(bps).String()})
	}
	for _, text := range []string{"20mbit", "25%", "1.5gbit", "800kbit"} {
		a, err := policy.ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, [3]any{"amount", text, a.String()})
	}
	for _, part := range []float64{0, 0.5, 0.99949, 0.9999, 1} {
		cases = append(cases, [3]any{"kept", part, api.RoundedDown(part)})
	}
	for _, ms := range []float64{0, 0.0123, 0.0994, 0.0995, 0.25, 0.994, 0.995, 5.14, 9.94, 9.95, 123.4} {
		cases = append(cases, [3]any{"wait", ms, delay.MsText(ms)})
	}
	var want bytes.Buffer
	for i, c := range cases {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		want.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		want.Write(line)
	}
	want.WriteString("\n]\n")
	const file = "testdata/units.json"
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%v: the file is not as this version writes quantities; go test ./internal/face/web -update", err)
	}
}
