// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/invalid/invalidtest"
	"weir/internal/core/policy/discipline"
	"weir/internal/test/boundtest"
)

func TestChange(t *testing.T) {
	var l Change
	if !l.Empty() || l.Given() != nil {
		t.Errorf("%+v says %v", l, l.Given())
	}
	for field, text := range map[string]string{"weight": "7", "min": "10%", "max": "none", "burst": "none", "isolation": "flows", "reserve": "5mbit", "limit_packets": "100", "limit_bytes": "0",
		"discipline": "pq", "queues": "{a: {match: {udp: 1}}, b: {}}", "aqm": "off", "dscp": "none", "group": "none", "zones": "lan max 5mbit", "quota": "total 1GB per day then block", "when": "mon 01:00-02:00 max 5mbit"} {
		if err := l.Put(field, text); err != nil {
			t.Error(err)
		}
		if field == "group" || field == "quota" {
			continue
		}
		if err := l.Put("ingress."+field, text); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(l.Given(), AllNames()) || l.Empty() {
		t.Errorf("%+v says %v", l, l.Given())
	}
	if got := (Change{}).Over(l); !reflect.DeepEqual(got, l) {
		t.Errorf("over nothing: %+v", got)
	}
	if got := l.Over(Change{}); !reflect.DeepEqual(got, l) {
		t.Errorf("under nothing: %+v", got)
	}
	if err := l.Put("wieght", "1"); err == nil || !strings.Contains(err.Error(), "weight") {
		t.Errorf("unknown field: %v", err)
	}
	if err := l.Put("ingress.min", "1mbps"); err == nil || !strings.HasPrefix(err.Error(), "ingress.min ") {
		t.Errorf("a bad min of ingress: %v", err)
	}
	if err := l.Put("ingress.group", "a"); err == nil || !strings.Contains(err.Error(), "no such field") {
		t.Errorf("a group of ingress: %v", err)
	}
}

// A discipline without queues is all that has to be said to be rid of queues.
func TestDisciplineWithoutQueuesTakesThemAway(t *testing.T) {
	var below, above Change
	for _, put := range []struct {
		l           *Change
		field, text string
	}{
		{&below, "discipline", "pq"}, {&below, "queues", "a: {match: {udp: 1}}\nb: {}"}, {&above, "discipline", "fifo"},
	} {
		if err := put.l.Put(put.field, put.text); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range map[string]Policy{
		"over":  below.Over(above).Apply(Default()),
		"apply": above.Apply(below.Apply(Default())),
	} {
		if p.Discipline != discipline.FIFO || len(p.Queues) != 0 || p.Check() != nil {
			t.Errorf("%s: %+v, %v", name, p, p.Check())
		}
	}
	if p := below.Apply(Default()); len(p.Queues) != 2 || p.Check() != nil {
		t.Errorf("%+v, %v", p, p.Check())
	}
}

// A discipline takes an isolation that a layer below gave, and that does not go with it, away, and
// is refused beside one in the same layer.
func TestOtherDisciplinesTakeIsolationAway(t *testing.T) {
	below, above := MustChange("isolation", "srchost"), MustChange("discipline", "fifo")
	for name, p := range map[string]Policy{
		"over":  below.Over(above).Apply(Default()),
		"apply": above.Apply(below.Apply(Default())),
	} {
		if p.Discipline != discipline.FIFO || p.Isolation != discipline.ByFlow || p.Check() != nil {
			t.Errorf("%s: %+v, %v", name, p, p.Check())
		}
	}
	none := MustChange("isolation", "none", "discipline", "pq", "queues", "{a: {match: [{udp: 1}]}, rest: {}}").Apply(Default())
	if p := MustChange("discipline", "sfq").Apply(none); none.Check() != nil || p.Isolation != discipline.ByFlow || p.Check() != nil {
		t.Errorf("isolation none of pq: %v; then sfq: %+v, %v", none.Check(), p, p.Check())
	}
	if p := MustChange("discipline", "pq", "queues", "{a: {match: [{udp: 1}]}, rest: {}}").Apply(below.Apply(Default())); p.Isolation != discipline.BySource || p.Check() != nil {
		t.Errorf("pq takes the isolation of its rest away: %+v, %v", p, p.Check())
	}
	if p := MustChange("discipline", "sfq").Apply(below.Apply(Default())); p.Isolation != discipline.BySource {
		t.Errorf("sfq takes the isolation away: %+v", p)
	}
	const want = `isolation "srchost": discipline fifo does not tell flows apart; write discipline sfq, or isolation flows`
	if err := above.Over(below).Check(); invalidtest.Text(err) != want {
		t.Errorf("both in one layer: %v", err)
	}
	if err := below.Check(); err != nil {
		t.Errorf("an isolation alone, whose discipline another layer gives: %v", err)
	}
}

// A burst needs a max, which another layer may give.
func TestBurstWithoutItsMax(t *testing.T) {
	burst := MustChange("burst", "20MB")
	if err := burst.Check(); err != nil {
		t.Errorf("a burst alone: %v", err)
	}
	for name, p := range map[string]Policy{
		"no max":   burst.Apply(Default()),
		"max none": MustChange("max", "none").Over(burst).Apply(Default()),
	} {
		if err := p.Check(); !strings.Contains(invalidtest.Text(err), "there is no max that it would be above") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p := burst.Apply(MustChange("max", "10mbit").Apply(Default())); p.Check() != nil || p.Burst != 20e6 {
		t.Errorf("%+v, %v", p, p.Check())
	}
	if err := MustChange("max", "none").Over(burst).Check(); err == nil {
		t.Error("a burst beside max none is taken")
	}
}

func TestParseQueues(t *testing.T) {
	const remedy = "; write it as {voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}"
	for _, tt := range []struct{ text, want string }{
		{"", ""}, {"none", ""}, {" None ", ""},
		{"a: {}", "a"}, {"{a: {min: 1mbit}, b: {}}", "a b"}, {"a:\n  min: 1mbit\nb:\n", "a b"},
		{`[{"name":"a","match":[{"udp":5001},{"tcp":[80,"8000-8010"]}]},{"name":"b"}]`, "a b"},
		{"{a: {rate: 1mbps}}", `queues.a.rate "1mbps": tc reads mbps as megabytes a second, others as megabits; write 8mbit if you mean 1 megabytes a second, 1mbit if you mean 1 megabits a second`},
		{"{a: {match: [{udp: 5001}, {upd: 1}]}}", `queues.a.match[1] "upd": no such key; known here: preset, proto, tcp, udp, sport, dport, src, dst, dscp, vlan, priority, mark, queue`},
		{"{a: {mtach: []}}", `queues.a.mtach "mtach": unknown key; did you mean "match"?`},
		{"[1, 2]", `queues[0] "[1, 2]": the single value "1" where fields are expected; write it as {rate: 1mbit, match: [{udp: 5001}]}`},
		{"voice", `queues "voice": the single value "voice" where queues are expected` + remedy},
	} {
		queues, err := ParseQueues(tt.text)
		var names []string
		for _, q := range queues {
			names = append(names, q.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		var mistake *invalid.Error
		if got != tt.want || err != nil && !errors.As(err, &mistake) || err == nil && queues == nil {
			t.Errorf("%q\ngives %s\nwant  %s", tt.text, got, tt.want)
		}
	}
	if _, err := ParseQueues("a: {" + strings.Repeat(" ", bound.Policy) + "}"); err == nil || !strings.Contains(err.Error(), "65541 bytes, 65536 are the most") {
		t.Errorf("too long: %v", err)
	}
	if _, err := ParseQueues("{a: {"); err == nil || !strings.HasPrefix(err.Error(), `queues "{a: {": `) {
		t.Errorf("unfinished: %v", err)
	}
}

// ParseQueues never returns more queues than the text has bytes, and never panics.
func FuzzParseQueues(f *testing.F) {
	for _, seed := range []string{"a: {}", "{voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}", `[{"name":"a","match":[{"udp":5001}]}]`, "none", "-", "? ", "- a", "&a [*a]", "a: &x {match: *x}"} {
		f.Add(seed)
	}
	f.Add(boundtest.Rules(bound.Label))
	f.Add(boundtest.Rules(bound.Policy))
	boundtest.Seeds[string](f, bound.Policy, "{a: {match: ", "- {name: a, match: [")
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			queues, err := ParseQueues(text)
			var mistake *invalid.Error
			if err != nil && !errors.As(err, &mistake) {
				t.Errorf("%q: %v is no *Error", text, err)
			}
			if len(queues) > len(text) {
				t.Errorf("%q: %d queues", text, len(queues))
			}
			if again, e := ParseQueues(writeQueues(queues)); err == nil && (e != nil || !reflect.DeepEqual(queues, again) && len(queues) > 0) {
				t.Errorf("%q is read as %v, and written and read again as %v, %v", text, queues, again, e)
			}
			if _, err := CheckRules(queues); err != nil && !errors.As(err, &mistake) {
				t.Errorf("%q: %v is no *Error", text, err)
			}
		})
	})
}

// FuzzChange: whatever JSON says, a change that can be read is written as what it says.
func FuzzChange(f *testing.F) {
	f.Add(`{"weight":3,"min":"25%","queues":[{"name":"a","match":[{"udp":1}]}],"ingress":{"max":"none"},"reserve_queue":"a"}`)
	f.Add(`{"weight":"x","note":1,"ingress":{"group":"a"}}`)
	for _, change := range boundtest.Changes(bound.Body) {
		f.Add(change)
	}
	boundtest.Seeds[string](f, bound.Body, `{"queues":`, `{"when":"`, `{"ingress":{"queues":`)
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			var c, again Change
			if json.Unmarshal([]byte(text), &c) != nil || c.Readable() != nil {
				return
			}
			_ = c.Check()
			written, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(written, &again); err != nil || again.Readable() != nil {
				t.Fatalf("%s: %v, %v", written, err, again.Readable())
			}
			if !maps.Equal(c.Texts(), again.Texts()) || !reflect.DeepEqual(c.Apply(Default()), again.Apply(Default())) {
				t.Errorf("%s\nis read as  %+v\nand then as %+v", text, c, again)
			}
		})
	})
}

// TestPortsMultiply: lists of ports that fit a label stand for millions of rules. They are refused
// by their number.
func TestPortsMultiply(t *testing.T) {
	list := make([]string, 60)
	for i := range list {
		list[i] = strconv.Itoa(2*i + 1)
	}
	ports := "[" + strings.Join(list, ",") + "]"
	boundtest.Hold(t, func() {
		var c Change
		if err := c.Put("queues", "{a: {match: [{tcp: "+ports+", sport: "+ports+", dport: "+ports+"}]}, z: {}}"); err != nil {
			t.Fatal(err)
		}
		if err := c.Put("discipline", "pq"); err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "216000") {
			t.Errorf("%v, want a refusal of 216,000 rules", err)
		}
	})
}
