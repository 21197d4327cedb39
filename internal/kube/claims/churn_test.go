// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestChurn: claims come and go in a random order while driver and agent are stopped and started in
// between. Whatever kubelet was told "yes" about is held in the end, once, and nothing else.
func TestChurn(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { churn(t, rand.New(rand.NewPCG(seed, 2))) })
	}
}

func churn(t *testing.T, r *rand.Rand) {
	b := newBed(t, "links: [{device: eth0, egress: 1gbit}]")
	prepared := map[string]*resourceapi.ResourceClaim{}
	agent, driver, made := true, true, 0
	up := func() {
		if !agent {
			b.startAgent()
		}
		if !driver {
			b.startDriver()
		}
		agent, driver = true, true
	}
	for range 40 {
		switch n := r.IntN(10); {
		case n < 4: // a pod starts; kubelet asks until it is told yes
			name := fmt.Sprintf("p%d", made)
			made++
			c := b.claim(name, fmt.Sprintf("%dM", 1+r.IntN(9)), name)
			if !agent && driver {
				if b.prepare(c) == nil {
					t.Error("prepared without an agent")
				}
			}
			up()
			b.must(b.prepare(c))
			prepared[name] = c
		case n < 7: // a pod ends
			for name, c := range prepared {
				if !agent && driver && b.unprepare(c) == nil {
					t.Error("unprepared without an agent")
				}
				up()
				b.must(b.unprepare(c))
				b.remove(name)
				delete(prepared, name)
				break
			}
		case n == 7 && driver:
			b.stopDriver()
			driver = false
		case n == 8 && agent:
			b.stopAgent()
			agent = false
		default: // kubelet was restarted and prepares all anew
			up()
			for _, c := range prepared {
				b.must(b.prepare(c))
			}
		}
	}
	up()
	var want []string
	for name, c := range prepared {
		q := c.Status.Allocation.Devices.Results[0].ConsumedCapacity["bandwidth"]
		want = append(want, fmt.Sprintf("shop/%s %d Mbit/s", name, q.Value()/1e6))
	}
	slices.Sort(want)
	b.holds("in the end", strings.Join(want, ", "))
	for name := range prepared {
		b.says(name, "True", "held")
	}
	list, err := b.agent.Allocations(t.Context())
	if err != nil || len(list) != len(prepared) {
		t.Errorf("%d allocations of %d claims, %v", len(list), len(prepared), err)
	}
}
