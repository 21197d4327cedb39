// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var bar = regexp.MustCompile(`<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="#(?:0072b2|d55e00)"/>`)

// heights are those of all bars in the first two colours, without the legend's swatches.
func heights(svg []byte) (list []float64) {
	for _, m := range bar.FindAllStringSubmatch(string(svg), -1) {
		if m[3] != "14.0" {
			v, _ := strconv.ParseFloat(m[4], 64)
			list = append(list, v)
		}
	}
	return list
}

func TestBarsAreAsHighAsTheirValues(t *testing.T) {
	b := Bars{Title: "t", Unit: "Mbit/s", Groups: []string{"one", "two"}, Kinds: []string{"a", "b"},
		Values: [][]float64{{10, 20}, {40, math.NaN()}}}
	got := heights(b.SVG())
	if len(got) != 3 || math.Abs(got[1]/got[0]-2) > 0.01 || math.Abs(got[2]/got[0]-4) > 0.01 {
		t.Errorf("heights %v, want three in the proportion 1:2:4", got)
	}
	b.Stacked, b.Values = true, [][]float64{{10, 30}, {20, 20}}
	if got := heights(b.SVG()); len(got) != 4 || math.Abs(got[1]/got[0]-3) > 0.01 {
		t.Errorf("stacked: heights %v", got)
	}
	b.Stacked, b.Log, b.Low, b.Values = false, true, 1, [][]float64{{10, 100}, {1000, 10}}
	if got := heights(b.SVG()); len(got) != 4 || math.Abs(got[1]/got[0]-2) > 0.02 || math.Abs(got[2]/got[0]-3) > 0.02 {
		t.Errorf("logarithmic: heights %v", got)
	}
}

func TestBarsBelowZeroHangFromIt(t *testing.T) {
	b := Bars{Title: "t", Unit: "%", Groups: []string{"one"}, Kinds: []string{"a", "b"}, Values: [][]float64{{-10, 10}}, Low: -20}
	m := bar.FindAllStringSubmatch(string(b.SVG()), -1)
	last := m[len(m)-2:]
	hang, _ := strconv.ParseFloat(last[0][2], 64)
	stand, _ := strconv.ParseFloat(last[1][2], 64)
	height, _ := strconv.ParseFloat(last[1][4], 64)
	if math.Abs(stand+height-hang) > 0.2 {
		t.Errorf("the one hangs from %g, the other stands on %g", hang, stand+height)
	}
}

func TestStep(t *testing.T) {
	for of, want := range map[float64]float64{1: 0.2, 60: 20, 58: 20, 7: 2, 0.04: 0.01, 100: 20} {
		if got := Step(of); math.Abs(got-want) > 1e-9 {
			t.Errorf("Step(%g) = %g, want %g", of, got, want)
		}
	}
}

func TestLinesKeepTheirOrder(t *testing.T) {
	svg := string(LineChart{Title: "t", Unit: "Mbit/s", Across: "s", Kinds: []string{"a"}, Curves: [][]CurvePoint{{{0, 0}, {10, 5}}}, Level: 4}.SVG())
	if !strings.Contains(svg, "stroke-dasharray") || !strings.Contains(svg, `<polyline points="78.0,356.0 `) {
		t.Errorf("no level, or the curve does not begin at the lower left end:\n%s", svg)
	}
}
