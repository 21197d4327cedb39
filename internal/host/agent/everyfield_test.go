// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/api/apitest"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
)

// examples returns a value for each field by its name in policy.AllNames.
func examples() map[string]string {
	all := map[string]string{}
	for _, f := range policy.Fields(policy.OnWorkload | policy.OnIngress) {
		if f.On&policy.OnWorkload != 0 {
			all[f.Name] = f.Example
		}
		if f.On&policy.OnIngress != 0 {
			all["ingress."+f.Name] = f.Example
		}
	}
	// The example belongs to sfq, and that of discipline is llq: what is kept is flows, the
	// default.
	all["isolation"], all["ingress.isolation"] = "flows", "flows"
	return all
}

// Every field of the table can be asked for by a label and by weir set, and what was set is
// kept across a restart.
func TestEveryFieldByLabelAndSet(t *testing.T) {
	given := examples()
	var pairs, labels []string
	for _, name := range policy.AllNames() {
		pairs = append(pairs, name, given[name])
		labels = append(labels, "weir."+strings.ReplaceAll(name, "_", "-")+"="+given[name])
	}
	want := apitest.Change(pairs...).Apply(policy.Default())
	inBubble(t, "links: [{device: eth0, egress: 1gbit, ingress: 1gbit, zones: {wan: {egress: 100mbit}, lan: {prefixes: [private]}}}]\nlabels: {allow: ["+strings.Join(policy.FieldNames(policy.OnWorkload), ", ")+"]}\ngroups: {tenant-b: {}}",
		func(t *testing.T, h *host) {
			h.start()
			h.run("labelled", labels...)
			h.run("set")
			if _, err := h.Set(t.Context(), "set", apitest.Change(pairs...), false); err != nil {
				t.Fatal(err)
			}
			check := func(when, name, origin string) {
				t.Helper()
				w := h.workload(name)
				for _, field := range policy.AllNames() {
					if !policy.Same(field, w.Policy.Policy, want) || w.Origin[field] != origin {
						t.Errorf("%s: %s of %s is of %q, in %+v", when, field, name, w.Origin[field], w.Policy)
					}
				}
			}
			check("asked by labels", "labelled", decide.OriginLabel)
			check("set", "set", decide.OriginSet)
			h.stop()
			h.start()
			seconds(2)
			check("after a restart", "set", decide.OriginSet)
		})
	if missing := slices.DeleteFunc(slices.Collect(maps.Keys(given)), func(name string) bool { return given[name] != "" }); len(missing) > 0 {
		t.Errorf("without an example: %v", missing)
	}
}
