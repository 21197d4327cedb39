// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyChange draws a change from the examples of the table, "none" and defaults.
func anyChange(t *rapid.T) Change {
	var c Change
	for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(AllNames()), rapid.ID[string]).Draw(t, "fields") {
		f := FieldOf(name)
		text := rapid.SampledFrom([]string{f.Example, f.Write(Default())}).Draw(t, name)
		if err := c.Put(name, text); err != nil {
			t.Fatalf("%s %s: %v", name, text, err)
		}
	}
	return c
}

// A change is the sum of its parts, and JSON, text and policies say the same of it.
func TestChangeAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyChange(t)
		names := c.Given()
		var sum Change
		for _, name := range names {
			part := c.Only(name)
			if !part.Gives(name) || len(part.Given()) != 1 {
				t.Fatalf("only %s gives %v", name, part.Given())
			}
			if c.Without(name).Gives(name) {
				t.Errorf("without %s still gives it", name)
			}
			sum = ChangeTo(c.Apply(Default()), name).Over(sum)
		}
		if len(names) == 0 != c.Empty() {
			t.Errorf("%v is empty: %v", names, c.Empty())
		}
		was, is := c.Apply(Default()), sum.Apply(Default())
		for _, name := range names {
			byDiscipline := slices.Contains([]string{"queues", "isolation"}, strings.TrimPrefix(name, ingressPrefix)) // may take these away
			if !byDiscipline && !Same(name, was, is) {
				t.Errorf("%s: %+v and %+v", name, was, is)
			}
		}
		text, err := json.Marshal(c)
		var again Change
		if err != nil || json.Unmarshal(text, &again) != nil || !maps.Equal(c.Texts(), again.Texts()) {
			t.Errorf("%s is read as %v: %v", text, again.Texts(), err)
		}
		shown, err := json.Marshal(was)
		var read Policy
		if err != nil || json.Unmarshal(shown, &read) != nil {
			t.Fatalf("%s: %v", shown, err)
		}
		for _, name := range AllNames() {
			if !Same(name, was, read) {
				t.Errorf("%s of %s is read as %+v", name, shown, read)
			}
		}
	})
}

// Each row is complete, and says what it is for people and programs.
func TestFields(t *testing.T) {
	for _, f := range Fields(OnWorkload | OnIngress | OnGroup) {
		if f.Value == "" || f.Example == "" || f.DocOn(OnWorkload) == "" || f.DocOn(OnGroup) == "" || strings.ContainsAny(f.Label()+f.Hyphenated(), "_. ") {
			t.Errorf("the row of %s is not complete: %+v", f.Name, f)
		}
		if c := MustChange(f.Name, f.Example); f.AtDefault(c.To()) || f.Form == Text && f.Write(c.To()) != f.Example {
			t.Errorf("the example of %s is written %s", f.Name, f.Write(c.To()))
		}
	}
	if got, want := FieldNames(OnGroup), []string{"weight", "min", "max", "burst", "zones", "quota", "when"}; !slices.Equal(got, want) {
		t.Errorf("a group has %v, want %v", got, want)
	}
	group, err := MustChange("weight", "2", "max", "40mbit").Apply(Default()).JSON(OnGroup)
	if err != nil || string(group) != `{"weight":2,"min":"","max":"40mbit"}` {
		t.Errorf("a group is shown as %s, %v", group, err)
	}
	voice := MustChange("queues", "voice: {rate: 1mbit, match: [{udp: 5001}, {tcp: 80}], dscp: ef, limit_packets: 50}").To().Queues[0]
	var words []string
	for _, f := range QueueFields() {
		if text := f.Text(voice); text != "" {
			words = append(words, f.Name+": "+text)
		}
	}
	if got, want := strings.Join(words, ", "), "rate: 1 Mbit/s, match: [{udp: 5001}, {tcp: 80}], dscp: ef, limit_packets: 50"; got != strings.Replace(want, "1 Mbit/s", "1mbit", 1) {
		t.Errorf("the queue is %q", got)
	}
}

// What JSON says wrong is told by Readable and Check, with the field.
func TestChangesThatCannotBeRead(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"weight":0}`, `weight "0": out of range`},
		{`{"min":""}`, `min "": empty`},
		{`{"limit_packets":-1}`, `limit_packets "-1": not a number of packets`},
		{`{"limit_packets":99999999999}`, `limit_packets "99999999999": out of range; write 1000000 or less`},
		{`{"limit_bytes":12}`, `limit_bytes "12": less than one full frame`},
		{`{"limit_bytes":"x"}`, `limit_bytes "x": not a number of bytes`},
		{`{"dscp":"eff"}`, `dscp "eff": `},
		{`{"group":"a b"}`, `group "a b": cannot be a group's name`},
		{`{"colour":"blue"}`, `colour "blue": a policy has no such field`},
		{`{"queues":[{"name":"a","priority":0}]}`, `queues[0].priority "0": is no priority`},
		{`{"queues":[{"name":"a","limit_packets":"x"}]}`, `queues[0].limit_packets "x": not a number of packets`},
		{`{"queues":[{"name":"a","rate":[1]}]}`, `queues[0].rate "[{\"name\":\"a\",\"rate\":[1]}]": a list where a single value is expected`},
		{`{"queues":[{"name":"a","rate":{"b":1}}]}`, `queues[0].rate "[{\"name\":\"a\",\"rate\":{\"b\":1}}]": fields where a single value is expected`},
		{`{"queues":"a: &x {}"}`, `queues "a: &x {}": anchors, aliases and tags are not supported here`},
		{`{"queues":"a: {<<: {b: 1}}"}`, `queues "a: {<<: {b: 1}}": merge keys (<<) are not supported`},
		{`{"queues":"a: {match: [[[[[[[[1]]]]]]]]}"}`, `10 levels, 8 are the most`},
		{`{"ingress":{"max":"fast"}}`, `ingress.max "fast": `},
		{`{"min":"30mbit","max":"20mbit"}`, `min "30mbit": 30 Mbit/s is above the max`},
		{`{"ingress":{"min":"30mbit","max":"20mbit"}}`, `ingress.min "30mbit": 30 Mbit/s is above the max`},
		{`{"discipline":"sfq","queues":[{"name":"a"}]}`, `discipline "sfq": sfq gives each flow a queue of its own`},
	} {
		var c Change
		if err := json.Unmarshal([]byte(test.text), &c); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s gives %v, want %s", test.text, err, test.want)
		}
	}
	for _, text := range []string{`[]`, `{"ingress":1}`, `{"reserve_queue":1}`} {
		if err := json.Unmarshal([]byte(text), new(Change)); err == nil {
			t.Errorf("%s is read as a change", text)
		}
	}
	var newer Change
	if err := json.Unmarshal([]byte(`{"weight":2,"colour":"blue","ingress":{"weight":3,"shape":1}}`), &newer); err != nil || newer.Readable() == nil {
		t.Errorf("%v, %v", err, newer.Readable())
	}
	if known := newer.Known(); known.Readable() != nil || !reflect.DeepEqual(known.Given(), []string{"weight", "ingress.weight"}) {
		t.Errorf("of a newer version: %v, %v", known.Given(), known.Readable())
	}
}

func TestMustChangePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a change that cannot be read is made")
		}
	}()
	MustChange("weight", "none")
}
