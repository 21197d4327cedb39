// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/core/policy"
	"weir/internal/test/goldentest"
)

// The example of the design, as it stands there.
const example = `name: three containers, 1 to 3
link: {bandwidth: 100mbit}
scheduler: fair              # a comment
workloads:
  c1: {weight: 1, traffic: [{tcp: {streams: 1}}]}
  c2: {weight: 2, min: 10mbit, traffic: [{tcp: {streams: 4, start: 5s, stop: 20s}}, {ping: {}}]}
  c3: {weight: 3, max: 40mbit, discipline: fifo, traffic: [{udp: {rate: 60mbit, size: 1200}}]}
phases:
  - {for: 10s}
  - {for: 10s, set: {c1: {min: 30mbit}, c2: {traffic: off}}}
expect:
  - {phase: 1, workload: c1, rate: 16.7mbit, within: 2%}
`

func mustParse(t *testing.T, text string) *Scenario {
	t.Helper()
	s, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseExample(t *testing.T) {
	s := mustParse(t, example)
	if s.Name != "three containers, 1 to 3" || s.Scheduler != "fair" || s.Link.Bandwidth != 100e6 || s.Link.MTU != 1500 {
		t.Errorf("head: %+v", s)
	}
	if got := workloadNames(s); strings.Join(got, " ") != "c1 c2 c3" {
		t.Errorf("workloads are %v, want the order of the file", got)
	}
	c2 := s.Workloads[1]
	if !reflect.DeepEqual(c2.Policy, Policy{Weight: 2, Min: 10e6}) || len(c2.Traffic) != 2 {
		t.Errorf("c2 = %+v", c2)
	}
	if tcp := c2.Traffic[0]; tcp.Kind != TCP || tcp.Streams != 4 || tcp.Start != 5*time.Second || tcp.Stop != 20*time.Second {
		t.Errorf("c2's tcp = %+v", tcp)
	}
	if ping := c2.Traffic[1]; ping.Interval != 21300*time.Microsecond {
		t.Errorf("c2's ping = %+v", ping)
	}
	e := s.Expect[0]
	if e.Phase != 1 || e.Workload != 0 || e.Check != CheckRate || e.Value != 16.7e6 || e.Within.Of(e.Value) != 0.02*16.7e6 {
		t.Errorf("expect = %+v", e)
	}
	if pol := s.Policies(); pol[0][0].Min != 0 || pol[1][0].Min != 30e6 || pol[1][2].Max != 40e6 {
		t.Errorf("policies = %+v", pol)
	}
}

func TestFavour(t *testing.T) {
	for text, want := range map[string]string{"": "", ", favour: neither": "", ", favour: latency": "latency", ", favour: cpu": "cpu"} {
		s := mustParse(t, "workloads: {a: {}}\nlink: {bandwidth: 80mbit"+text+"}\n")
		if s.Link.Favour != want {
			t.Errorf("%q: %q, want %q", text, s.Link.Favour, want)
		}
	}
	if _, err := Parse("test.yaml", []byte("workloads: {a: {}}\nlink: {bandwidth: 80mbit, favour: speed}\n")); err == nil || !strings.Contains(err.Error(), "neither, latency, cpu") {
		t.Errorf("favour: speed: %v", err)
	}
}

func TestPercentIsOfTheLink(t *testing.T) {
	s := mustParse(t, "workloads: {a: {min: 25%}}\nlink: {bandwidth: 80mbit}\n")
	if got := s.Workloads[0].Policy.Min; got != 20e6 {
		t.Errorf("25%% of 80mbit = %v, want 20 Mbit/s (whatever the order in the file)", got)
	}
}

// Every file in testdata/bad has the message it must cause beside it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), data)
			if err == nil {
				t.Fatal("accepted")
			}
			goldentest.Check(t, strings.TrimSuffix(file, ".yaml")+".err", err.Error()+"\n")
		})
	}
}

func TestFlows(t *testing.T) {
	const head = "link: {bandwidth: 100mbit}\nworkloads:\n"
	tests := []struct{ name, file, want string }{
		{"start and stop cut, later phases do not", example,
			"c1 tcp 0s-20s; c2 ping 0s-10s; c3 udp 0s-20s; c2 tcp 5s-10s"},
		{"off and on again", head + "  a: {traffic: [{tcp: {}}]}\nphases: [{for: 5s}, {for: 5s, set: {a: {traffic: off}}}, {for: 5s, set: {a: {traffic: on}}}]",
			"a tcp 0s-5s; a tcp 10s-15s"},
		{"on where it is on changes nothing", head + "  a: {traffic: [{tcp: {}}]}\nphases: [{for: 5s}, {for: 5s, set: {a: {traffic: on}}}]",
			"a tcp 0s-10s"},
		{"a new list counts from its phase", head + "  a: {}\nphases: [{for: 5s}, {for: 5s, set: {a: {traffic: [{ping: {start: 2s, stop: 4s}}]}}}]",
			"a ping 7s-9s"},
		{"netperf once per phase, measured part only", head + "  a: {traffic: [{tcp_rr: {}}]}\nphases: [{for: 5s}, {for: 5s}]",
			"a tcp_rr 1s-5s; a tcp_rr 6s-10s"},
		{"a start after the end never runs", head + "  a: {traffic: [{tcp: {start: 30s}}]}\nphases: [{for: 5s}]", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustParse(t, tt.file)
			var got []string
			for _, f := range s.Flows() {
				got = append(got, s.Workloads[f.Workload].Name+" "+string(f.Kind)+" "+f.From.String()+"-"+f.To.String())
			}
			if g := strings.Join(got, "; "); g != tt.want {
				t.Errorf("got  %s\nwant %s", g, tt.want)
			}
		})
	}
}

func TestIdeals(t *testing.T) {
	s := mustParse(t, example)
	const ping = 40e3
	list := s.Ideals(func(int) policy.Rate { return ping })
	if len(list) != 3 {
		t.Fatalf("stretches: %+v", list)
	}
	// Before second 5 c2 only pings; c3 has its max; c1 takes the rest.
	near(t, "c1 alone with c3", list[0].Ideal, []float64{60e6 - ping, ping, 40e6})
	near(t, "all three", list[1].Ideal, []float64{20e6, 40e6, 40e6})
	near(t, "c2 off", list[2].Ideal, []float64{60e6, 0, 40e6})
	avg := IdealOver(list, time.Second, 10*time.Second, 3)
	near(t, "phase 1 as measured", avg, []float64{(4*(60e6-ping) + 5*20e6) / 9, (4*ping + 5*40e6) / 9, 40e6})
}

func TestIdealOfNetperfIsWhatItSent(t *testing.T) {
	s := mustParse(t, "link: {bandwidth: 100mbit}\nworkloads: {a: {traffic: [{tcp_rr: {}}]}, b: {traffic: [{tcp: {}}]}}")
	got := s.Ideals(func(int) policy.Rate { return 3e6 })
	near(t, "shares", got[0].Ideal, []float64{3e6, 97e6})
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	for i := range want {
		if d := got[i] - want[i]; d > 1 || d < -1 {
			t.Errorf("%s: workload %d gets %.0f, want %.0f", what, i+1, got[i], want[i])
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("fuzz.yaml", data)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an empty message")
			}
			return
		}
		// Whatever is accepted can be scheduled and judged.
		for _, st := range s.Ideals(nil) {
			var sum float64
			for _, v := range st.Ideal {
				sum += v
			}
			if sum > float64(s.Link.Bandwidth)*1.000001+1 {
				t.Errorf("ideals add up to %.0f on a link of %v", sum, s.Link.Bandwidth)
			}
		}
		for _, fl := range s.Flows() {
			if fl.From >= fl.To || fl.To > s.Duration() {
				t.Errorf("flow %+v outside the scenario", fl)
			}
		}
	})
}
