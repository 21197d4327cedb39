// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"slices"
	"testing"
)

// What a run printed is judged as the run itself was.
func TestRecordedRunIsJudgedAlike(t *testing.T) {
	s := parse(t, file+`expect:
  - {phase: 1, workload: a, rate: 39.2mbit, within: 1%}
  - {workload: p, rtt_p99: 1ms}
  - {utilisation: 99%}
  - {reaction: 40ms}
  - {bounds: held, within: 1%}
`)
	result := Evaluate(s, measurement(s))
	var out bytes.Buffer
	if err := JSON(&out, result); err != nil {
		t.Fatal(err)
	}
	recorded := Recorded{Scheduler: "fair", Lines: bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))}
	got, err := recorded.Verdicts(s)
	if err != nil || len(got) != 4 {
		t.Fatalf("%d verdicts, %v: want all but bounds", len(got), err)
	}
	for i, want := range result.Verdicts[:4] {
		if got[i].Figure != want.Figure || got[i].Check != want.Check || !slices.Equal(got[i].Failures, want.Failures) {
			t.Errorf("got %+v, want %+v", got[i], want)
		}
	}
}

func TestRecordedCostAndTiming(t *testing.T) {
	s := parse(t, "cost: {schedulers: [htb, fair]}")
	var out bytes.Buffer
	if err := CostJSON(&out, cost()); err != nil {
		t.Fatal(err)
	}
	rows, err := Recorded{Lines: bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))}.Figures(s)
	if want := cost().Figures(); err != nil || len(rows) != len(want) || rows[0].Values["added"] != want[0].Values["added"] {
		t.Errorf("%v, %v", rows, err)
	}
}
