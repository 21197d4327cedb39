// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/fake"
)

// TestDelaysAreShown: what the data plane counts of delays is in the view of a workload, its
// queues and its group, and in the explanation; where it measures none there is none.
func TestDelaysAreShown(t *testing.T) {
	const inside = "workloads: {a: {discipline: pq, queues: [{name: x, match: [{udp: 1}]}, {name: y}], group: g}, b: {group: g}}\ngroups: {g: {}}"
	inBubble(t, inside, func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		h.run("b")
		h.run("c")
		classes := map[string]plan.ClassID{}
		for _, name := range []string{"a", "b", "c"} {
			classes[name] = plan.ClassID(h.workload(name).Class)
		}
		for range 3 {
			h.kernel.Send("eth0", classes["a"], fake.ClassTraffic{Bytes: 1e6, Delays: &delay.Histogram{198: 10}})
			h.kernel.SendQueue("eth0", classes["a"], 1, fake.ClassTraffic{Bytes: 1e6, Delays: &delay.Histogram{198: 10}})
			h.kernel.Send("eth0", classes["b"], fake.ClassTraffic{Bytes: 1e6, Delays: &delay.Histogram{100: 30}})
			h.kernel.Send("eth0", classes["c"], fake.ClassTraffic{Bytes: 1e6})
			seconds(1)
		}
		const text = "p50 5.0 ms, p99 5.1 ms, at most 5.1 ms"
		a := h.workload("a").Links[0]
		if a.Delay.Text() != text || a.Queues[1].Delay.Text() != text || a.Queues[0].Delay != nil || a.Delay.Total.Count() != 30 {
			t.Errorf("a: %s; its queues %+v", a.Delay.Text(), a.Queues)
		}
		if c := h.workload("c").Links[0]; c.Delay != nil {
			t.Errorf("c: %+v", c.Delay)
		}
		groups, err := h.Groups(t.Context())
		if err != nil || groups[0].Links[0].Delay.Text() != "p50 0.60 ms, p99 5.1 ms, at most 5.1 ms" {
			t.Errorf("the group: %v, %v", groups[0].Links[0].Delay.Text(), err)
		}
		e, err := h.Explain(t.Context(), "a")
		want := "Of its packets of the last seconds half waited at most 5.0 ms, 99 of 100 at most 5.1 ms, and none longer than 5.1 ms."
		if err != nil || !strings.Contains(strings.Join(e.Links[0].Text, "\n"), want) {
			t.Errorf("explained as %v, %v", e.Links[0].Text, err)
		}
	})
}
