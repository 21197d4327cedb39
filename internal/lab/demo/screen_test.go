// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestBar(t *testing.T) {
	tests := []struct {
		name            string
		share, promised float64
		want            string
	}{
		{"nothing", 0, 0.5, "·····┃····"},
		{"half of a cell", 0.05, 0.5, "▌····┃····"},
		{"as promised", 0.5, 0.5, "█████┃····"},
		{"more than promised", 0.7, 0.5, "█████┃█···"},
		{"full", 1, 1, "█████████┃"},
		{"more than full", 1.3, 1, "█████████┃"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := bar(test.share, test.promised, 10); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestBarHasItsWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 100).Draw(t, "width")
		b := bar(rapid.Float64().Draw(t, "share"), rapid.Float64Range(0, 1).Draw(t, "promised"), width)
		if n := utf8.RuneCountInString(b); n != width || strings.Count(b, "┃") != 1 {
			t.Errorf("%q: %d wide, want %d with one mark", b, n, width)
		}
	})
}

var second = moment{
	names: []string{"camera", "web", "backup"}, rates: []float64{16.7e6, 33.3e6, 50e6},
	promised: []float64{16.7e6, 33.3e6, 50e6}, since: 2 * time.Second, left: 3500 * time.Millisecond,
}

func TestLiveLine(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, false, 0)
	s.live(second)
	s.live(second)
	line := "    2 s   camera  16.7  web  33.3  backup  50.0  Mbit/s\n"
	if out.String() != line+line {
		t.Errorf("got\n%s\nwant twice\n%s", out.String(), line)
	}
}

func TestLivePictureIsDrawnOverTheLast(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, true, besideBars+12)
	picture := strings.ReplaceAll(`  camera   ██┃·········  16.7 Mbit/s  promised  16.7
  web      ████┃·······  33.3 Mbit/s  promised  33.3
  backup   ██████┃·····  50.0 Mbit/s  promised  50.0
  link     ███████████┃ 100.0 Mbit/s     4 s left
`, "\n", "\x1b[K\n")
	s.live(second)
	s.live(second)
	s.keep()
	s.live(second)
	if want := picture + "\x1b[4A" + picture + picture; out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

func TestCommandIsShownWithItsAnswer(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, false, 0)
	s.command("weir set web --min 1mbit", "one\ntwo\n")
	if want := "  $ weir set web --min 1mbit\n    one\n    two\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
