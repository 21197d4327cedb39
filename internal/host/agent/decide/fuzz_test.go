// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/bound"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/discover"
	"weir/internal/test/boundtest"
)

// FuzzLabels: whatever stands in labels, nothing panics, what comes into force is
// below the administrator's, a note says what does not, and it does not grow
// beyond what was written.
func FuzzLabels(f *testing.F) {
	f.Add("weir.min=20mbit\nweir.max=200mbit\nweir.group=tenant\nweir.reserve=5%")
	f.Add("weir.discipline=llq\nweir.queues={voice: {rate: 1mbit, dscp: ef, reserve: 40mbit, match: [{preset: voip}]}, rest: {}}")
	f.Add("weir.ingress.max=none\nweir.limit-packets=0\nweir.weight=10001\nweir.wieght=3\nweir.aqm=5ms/100ms\nweir.dscp=ef")
	cfg, err := config.Parse("weir.yaml", []byte(`
links: [{device: eth0, egress: 100mbit, ingress: 50mbit}]
labels: {allow: [weight, min, max, reserve, limit_packets, limit_bytes, discipline, queues, aqm, dscp, group, when, quota, zones]}
groups: {office: {weight: 1}, tenant: {weight: 9}}
defaults: {max: 50mbit, min: 10mbit, group: office, limit_packets: 100, ingress: {max: 20%, min: 1mbit}}`))
	if err != nil {
		f.Fatal(err)
	}
	for _, field := range boundtest.Fields(bound.Label) {
		f.Add("weir.discipline=pq\nweir." + field[0] + "=" + field[1] + "\nweir.ingress." + field[0] + "=" + field[1])
	}
	boundtest.Seeds[string](f, bound.Policy, "weir.queues=", "weir.when=", "weir.quota=", "weir.zones=", "weir.")
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			labels := map[string]string{}
			for line := range strings.Lines(text) {
				key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
				labels[key] = value
			}
			found := discover.Workload{Key: "docker:web", Name: "web", Kind: workload.KindDocker, Labels: labels,
				Devices: []discover.Device{{Name: "veth", Ifindex: 7}}}
			d := Decide(World{Config: cfg, Found: []discover.Workload{found}, Number: map[string]plan.ClassID{}})
			v, _ := d.Ruling("docker:web")
			if v.Policy.Group != "office" || v.Policy.LimitPackets < 1 || v.Policy.LimitPackets > 100 {
				t.Errorf("group %q, %d packets", v.Policy.Group, v.Policy.LimitPackets)
			}
			for _, end := range []struct {
				policy   policy.Policy
				capacity policy.Rate
				max, min policy.Rate
			}{{v.Policy, 100e6, 50e6, 10e6}, {v.Policy.In(policy.Ingress), 50e6, 10e6, 1e6}} {
				if limit := end.policy.Max.Of(end.capacity); limit == 0 || limit > end.max {
					t.Errorf("max %v of %v", limit, end.max)
				}
				if floor := end.policy.Floor(end.capacity, 0); floor > end.min {
					t.Errorf("min and reservations %v of %v", floor, end.min)
				}
			}
			answer, err := json.Marshal(api.PolicyOf(v.Policy))
			if err != nil || json.Unmarshal(answer, new(api.Policy)) != nil {
				t.Errorf("what is answered of it cannot be read: %.300s, %v, %v", answer, err, json.Unmarshal(answer, new(api.Policy)))
			}
			if len(v.Note) > 4000+20*len(text) {
				t.Errorf("a note of %d bytes about %d", len(v.Note), len(text))
			}
		})
	})
}
