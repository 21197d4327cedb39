// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/lab/scenario"
	"weir/internal/test/goldentest"
)

func setting(policies ...scenario.Policy) Setting {
	return Setting{Device: "up0", Leaf: Leaf{Kind: "fq_codel"}, Link: scenario.Link{Bandwidth: 100e6, MTU: 1500}, Policies: policies}
}

// What Explain prints is the documentation of the set-ups, so it is held as
// text.
func TestExplain(t *testing.T) {
	var b strings.Builder
	Explain(&b)
	goldentest.Check(t, filepath.Join("testdata", "explain.txt"), b.String())
}

func TestEveryPeerOfTheFormatHasASetUp(t *testing.T) {
	for _, name := range scenario.Schedulers {
		_, ok := Find(name)
		own := slices.Contains(plan.Schedulers, name) || name == scenario.OVSHTB // of the switch itself
		if ok == own {
			t.Errorf("scheduler %s: in the table of peers: %v", name, ok)
		}
	}
}

func TestHTBRatesAreTheContract(t *testing.T) {
	s := setting(scenario.Policy{Weight: 1, Min: 30e6}, scenario.Policy{Weight: 2}, scenario.Policy{Weight: 3, Max: 15e6})
	got := strings.Join(s.htbClasses(), "; ")
	want := "rate 30000000bit ceil 100000000bit quantum 1514; " +
		"rate 55000000bit ceil 100000000bit quantum 3028; " +
		"rate 15000000bit ceil 15000000bit quantum 4542"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFixedRatesAreNotExceeded: a class that may not borrow has its rate for a ceil.
func TestFixedRatesAreNotExceeded(t *testing.T) {
	s := setting(scenario.Policy{Weight: 1, Min: 30e6}, scenario.Policy{Weight: 2}, scenario.Policy{Weight: 3, Max: 15e6}).unborrowed()
	for i, rate := range []string{"30000000", "55000000", "15000000"} {
		if want := "rate " + rate + "bit ceil " + rate + "bit "; !strings.HasPrefix(s.htbClasses()[i], want) {
			t.Errorf("class %d has %q, want %q", i+1, s.htbClasses()[i], want)
		}
	}
}

func TestQuantaStayBelowWhatHTBComplainsAbout(t *testing.T) {
	s := setting(scenario.Policy{Weight: 1}, scenario.Policy{Weight: 10000})
	if q := s.quanta(); q[0] != 1514 || q[1] != 200000 {
		t.Errorf("quanta %v, want 1514 and 200000", q)
	}
}

func TestChangeTouchesOnlyWhatDiffers(t *testing.T) {
	old := setting(scenario.Policy{Weight: 1}, scenario.Policy{Weight: 1}, scenario.Policy{Weight: 2})
	now := setting(scenario.Policy{Weight: 1}, scenario.Policy{Weight: 1}, scenario.Policy{Weight: 4})
	if got := changeDRR(old, now); got != "class change dev up0 parent 2: classid 2:3 drr quantum 6056\n" {
		t.Errorf("drr: %q", got)
	}
	if got := changeHTB(old, old); got != "" {
		t.Errorf("htb, nothing changed: %q", got)
	}
	if got := strings.Count(changeHTB(old, now), "class change"); got != 3 {
		t.Errorf("htb: %d classes changed, want 3: a weight changes everybody's rate", got)
	}
}

func TestParseDrops(t *testing.T) {
	const out = `[{"kind":"htb","handle":"1:","root":true,"drops":7},{"kind":"pfifo","parent":"1:1","drops":5}]`
	if n, err := parseDrops(out); err != nil || n != 7 {
		t.Errorf("got %d, %v, want the root's 7, which has its children's in it", n, err)
	}
	if n, err := parseDrops(`[]`); err != nil || n != 0 {
		t.Errorf("no qdisc: %d, %v", n, err)
	}
	if _, err := parseDrops("RTNETLINK answers"); err == nil {
		t.Error("text that is no JSON is accepted")
	}
}
