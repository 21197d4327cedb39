// SPDX-License-Identifier: Apache-2.0

package discipline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/core/invalid/invalidtest"
	"weir/internal/test/boundtest"
)

func TestParse(t *testing.T) {
	for _, name := range Names() {
		d, err := Parse(" " + strings.ToUpper(name) + " ")
		if err != nil || string(d) != name || d.OrDefault() != d {
			t.Errorf("%s is read as %q, %v", name, d, err)
		}
	}
	const want = `discipline "WFQ": no such discipline; write sfq, fifo, pq, cbwfq or llq`
	if _, err := Parse("WFQ"); invalidtest.Text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if Name("").OrDefault() != SFQ {
		t.Error("the default is not sfq")
	}
}

func TestParseAQM(t *testing.T) {
	const remedy = "write TARGET/INTERVAL such as 5ms/100ms or 5ms/100ms ecn, or on, off or default"
	for _, tt := range []struct {
		text      string
		compact   string
		sfq, fifo string // what it means for them: target/interval
		err       string
	}{
		{"", "", "5ms/100ms", "0s/0s", ""},
		{"default", "", "5ms/100ms", "0s/0s", ""},
		{"off", "off", "0s/0s", "0s/0s", ""},
		{"on", "5ms/100ms", "5ms/100ms", "5ms/100ms", ""},
		{"10ms", "10ms/100ms", "10ms/100ms", "10ms/100ms", ""},
		{" 500us / 10ms ", "500µs/10ms", "500µs/10ms", "500µs/10ms", ""},
		{"ecn", "5ms/100ms ecn", "5ms/100ms", "5ms/100ms", ""},
		{"1ms/20ms  ECN", "1ms/20ms ecn", "1ms/20ms", "1ms/20ms", ""},
		{"on ecn ce_threshold 1ms", "5ms/100ms ecn ce_threshold 1ms", "5ms/100ms", "5ms/100ms", ""},
		{"5ms/100ms ce_threshold 500us", "5ms/100ms ecn ce_threshold 500µs", "5ms/100ms", "5ms/100ms", ""},
		{"on ack-filter", "5ms/100ms ack-filter", "5ms/100ms", "5ms/100ms", ""},
		{"ACK-filter", "5ms/100ms ack-filter", "5ms/100ms", "5ms/100ms", ""},
		{"10ms ecn ce_threshold 1ms ack-filter", "10ms/100ms ecn ce_threshold 1ms ack-filter", "10ms/100ms", "10ms/100ms", ""},
		{"off ack-filter", "", "", "", `"off ack-filter": a filter without an AQM; write on ack-filter, or times such as 5ms/100ms ack-filter`},
		{"default ack-filter", "", "", "", `"default ack-filter": a filter without an AQM; write on ack-filter, or times such as 5ms/100ms ack-filter`},
		{"on ack-filter ack-filter", "", "", "", `"on ack-filter": not a target; ` + remedy},
		{"off ecn", "", "", "", `"off ecn": marks without an AQM that decides on them; write on ecn, or times such as 5ms/100ms ecn`},
		{"5ms/100ms ecn ce_threshold", "", "", "", `"5ms/100ms ecn ce_threshold": not an AQM with marks; write 5ms/100ms ecn, or 5ms/100ms ecn ce_threshold 1ms`},
		{"on ecn ce_threshold 0s", "", "", "", `"on ecn ce_threshold 0s": a ce_threshold of 0 would mark everything; write 5ms/100ms ecn, or 5ms/100ms ecn ce_threshold 1ms`},
		{"fast", "", "", "", `"fast": not a target; ` + remedy},
		{"5ms/x", "", "", "", `"5ms/x": not a target and an interval; ` + remedy},
		{"0s/100ms", "", "", "", `"0s/100ms": a time of 0 would drop everything; write off if there is to be no AQM`},
		{"1us/100ms", "", "", "", `"1us/100ms": a target below 10µs is less than timers and offloaded packets allow; ` + remedy},
		{"5ms/1m", "", "", "", `"5ms/1m": an interval above 10s; ` + remedy},
		{"100ms", "", "", "", `"100ms": the target, 100ms, is not below the interval, 100ms; make the interval about a round trip, and the target 5 to 10 % of it`},
	} {
		a, err := ParseAQM(tt.text)
		if got := invalidtest.Text(err); got != tt.err {
			t.Errorf("%q: error %s, want %s", tt.text, got, tt.err)
		}
		if err != nil {
			continue
		}
		of := func(d Name) string {
			target, interval := a.Of(d)
			return fmt.Sprintf("%s/%s", target, interval)
		}
		if a.Compact() != tt.compact || of("") != tt.sfq || of(SFQ) != tt.sfq || of(PQ) != tt.sfq || of(FIFO) != tt.fifo {
			t.Errorf("%q is %s, for sfq %s, for pq %s", tt.text, a.Compact(), of(SFQ), of(FIFO))
		}
		if again, err := ParseAQM(a.Compact()); err != nil || again.Compact() != a.Compact() {
			t.Errorf("%q is printed as %q, which is read as %+v, %v", tt.text, a.Compact(), again, err)
		}
	}
	if err := (AQM{Off: true, Target: time.Second}).Check(); invalidtest.Text(err) != `"off": both off and with times; write one of them` {
		t.Error(err)
	}
	if err := (AQM{Interval: time.Second}).Check(); err != nil {
		t.Error(err)
	}
}

func FuzzParseAQM(f *testing.F) {
	for _, seed := range []string{"", "off", "5ms/100ms", "1h", "1us/2us", "-5ms"} {
		f.Add(seed)
	}
	boundtest.Seeds[string](f, bound.Label)
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			a, err := ParseAQM(text)
			if err != nil {
				_ = invalidtest.Text(err)
				return
			}
			if again, err := ParseAQM(a.Compact()); err != nil || again.Compact() != a.Compact() || a.Check() != nil {
				t.Errorf("%q is %+v, printed as %q, read again as %+v, %v", text, a, a.Compact(), again, err)
			}
		})
	})
}
