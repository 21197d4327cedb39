// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
)

// allocate has the agent set mins of eth0 aside for pods, as the driver of claims does.
func (b *bed) allocate(claim string, mbit uint64, pods ...string) {
	b.t.Helper()
	req := api.AllocationRequest{For: claim, Pods: pods, Mins: []api.LinkMin{{Device: "eth0", Direction: "egress", MinBps: mbit * 1e6}}}
	if _, err := b.api.Allocate(b.t.Context(), "uid-"+claim, req, false); err != nil {
		b.t.Fatal(err)
	}
}

// TestPodWithClaim: the min of a claim is there before the sandbox, which takes the class over;
// annotations say the rest; comparing with the agent touches nothing of claims.
func TestPodWithClaim(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	b.allocate("shop/uplink", 30, "shop/web")
	b.expect("before the sandbox", "shop/web weight 1 min 30 Mbit/s")
	web := pod("shop/web", "s1", "weir.dev/weight", "3", "weir.dev/min", "20M")
	b.run(web)
	if got, want := b.state(), "shop/web weight 3 min 30 Mbit/s veth-s1"; got != want {
		t.Errorf("when the sandbox runs eth0 has\n%s\nwant\n%s", got, want)
	}
	b.annotate("shop/web", "weir.dev/min", "45M")
	b.expect("the annotation asks for more", "shop/web weight 1 min 45 Mbit/s veth-s1")
	b.annotateNamespace("shop", "weir.dev/min", "50M")
	b.expect("what was claimed comes on top of a namespace's min", "ns.shop weight 1 min 80 Mbit/s", "shop/web weight 1 min 45 Mbit/s in ns.shop veth-s1")
	b.annotateNamespace("shop")
	b.annotate("shop/web")
	b.expect("no annotations", "shop/web weight 1 min 30 Mbit/s veth-s1")
	b.remove(web)
	b.expect("the sandbox is gone, the claim is not", "shop/web weight 1 min 30 Mbit/s")
	time.Sleep(700 * time.Millisecond) // two comparisons
	if log := b.log.String(); strings.Contains(log, "cannot be detached") || strings.Contains(log, "cannot be deleted") {
		t.Error("the plugin takes what claims await for its own")
	}
	if _, err := b.api.Release(t.Context(), "uid-shop/uplink", false); err != nil {
		t.Fatal(err)
	}
	b.expect("given back")
	if told := b.told(); len(told) > 0 {
		t.Errorf("Events: %q", told)
	}
}

// TestPodsShareClaim: pods that share a claim are a group; one of an annotated namespace cannot.
func TestPodsShareClaim(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	b.allocate("shop/uplink", 30, "shop/a", "shop/b")
	b.run(pod("shop/a", "s1", "weir.dev/weight", "3"))
	b.run(pod("shop/b", "s2"))
	b.expect("shared", "shop/a weight 3 in claim.shop.uplink veth-s1", "shop/b weight 1 in claim.shop.uplink veth-s2", "claim.shop.uplink weight 4 min 30 Mbit/s")
	b.annotateNamespace("shop", "weir.dev/max", "50M")
	b.expect("an annotated namespace", "ns.shop weight 1 max 50 Mbit/s", "shop/a weight 3 in ns.shop veth-s1", "shop/b weight 1 in ns.shop veth-s2", "claim.shop.uplink weight 1 min 30 Mbit/s")
	list, err := b.api.Allocations(t.Context())
	if err != nil || len(list) != 1 || list[0].Mins[0].Held || !strings.Contains(list[0].Mins[0].Note, "shop/a is in group ns.shop") {
		t.Errorf("%+v, %v", list, err)
	}
	b.annotateNamespace("shop")
	b.expect("and no more", "shop/a weight 3 in claim.shop.uplink veth-s1", "shop/b weight 1 in claim.shop.uplink veth-s2", "claim.shop.uplink weight 4 min 30 Mbit/s")
	workloads, err := b.api.Workloads(t.Context())
	if i := slices.IndexFunc(workloads, func(w api.Workload) bool { return w.Name == "shop/a" }); err != nil || i < 0 || workloads[i].Origin["group"] != "allocation" {
		t.Errorf("%+v, %v", workloads, err)
	}
}
