// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/host/dataplane"
)

// claim asks for mins for a claim: "eth0=60mbit", "eth0 ingress=1mbit".
func (h *host) claim(name string, pods []string, mins ...string) error {
	_, err := h.Allocate(h.t.Context(), "uid-"+name, allocation(h.t, name, pods, mins...), false)
	return err
}

func allocation(t *testing.T, name string, pods []string, mins ...string) api.AllocationRequest {
	t.Helper()
	req := api.AllocationRequest{For: "shop/" + name, Pods: pods}
	for _, min := range mins {
		link, rate, _ := strings.Cut(min, "=")
		device, direction, _ := strings.Cut(link, " ")
		m := api.LinkMin{Device: device, Direction: direction}
		if _, err := fmt.Sscanf(rate, "%dmbit", &m.MinBps); err != nil {
			t.Fatal(err)
		}
		m.MinBps *= 1e6
		req.Mins = append(req.Mins, m)
	}
	return req
}

// pod makes the workload of a pod run.
func (h *host) pod(name string) {
	h.t.Helper()
	if _, err := h.Attach(h.t.Context(), api.AttachRequest{Name: name, Pod: "sandbox", Netns: "blue"}, false); err != nil {
		h.t.Fatal(err)
	}
	seconds(1)
}

// held returns the allocations as text, a line for each link: "shop/uplink eth0 60 class 1".
func (h *host) held() string {
	h.t.Helper()
	list, err := h.Allocations(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	var b strings.Builder
	for _, a := range list {
		for _, m := range a.Mins {
			fmt.Fprintf(&b, "%s %s %d class %d %s\n", a.For, api.LinkName(m.Device, m.Direction), m.MinBps/1e6, a.Class, m.Note)
		}
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

func (h *host) expectHeld(what, want string) {
	h.t.Helper()
	if got := h.held(); got != flush(want) {
		h.t.Errorf("%s: got\n%swant\n%s", what, got, flush(want))
	}
}

// An allocation holds its min before the pod is there, while it is, over a restart of the agent,
// after the pod has gone; until it is released.
func TestAllocationOutlivesPodAndAgent(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		if err := h.claim("uplink", []string{"shop/web"}, "eth0=60mbit"); err != nil {
			t.Fatal(err)
		}
		awaited := "0 host weight 1\n1 shop/web weight 1 min 60 Mbit/s\n"
		h.expect("before the pod", "eth0", awaited)
		w, err := h.Workload(t.Context(), "shop/web")
		if err != nil || w.State != workload.StateWaiting || w.Kind != "pod" || w.Links[0].MinBps != 60e6 {
			t.Errorf("%+v, %v", w, err)
		}
		h.run("late")
		_, err = h.Set(t.Context(), "late", apitest.Change("min", "41mbit"), false)
		refused(t, err, refusal.NoRoom, "asked 41 Mbit/s, reserved 60 Mbit/s of 100 Mbit/s", "lower the min of shop/web")
		sets := h.kernel.Sets("eth0")
		if err := h.claim("uplink", []string{"shop/web"}, "eth0=60mbit"); err != nil {
			t.Error("asked for again:", err)
		}
		if h.kernel.Sets("eth0") != sets {
			t.Error("the same allocation again was set again")
		}
		h.pod("shop/web")
		runs := "0 host weight 1\n1 shop/web weight 1 min 60 Mbit/s: veth-shop/web\n2 late weight 1: vethlate\n"
		h.expect("the pod runs", "eth0", runs)
		h.stop()
		h.start()
		h.expect("restarted", "eth0", runs)
		h.expectHeld("restarted", "shop/uplink eth0 60 class 1")
		if _, err := h.Detach(t.Context(), "shop/web", false); err != nil {
			t.Fatal(err)
		}
		h.expect("the pod has gone", "eth0", awaited+"2 late weight 1: vethlate\n")
		status, err := h.Status(t.Context())
		if l := status.Links[0]; err != nil || l.AllocatedBps != 60e6 || l.ReservedBps != 60e6 || l.FreeBps != 40e6 {
			t.Errorf("%+v, %v", l, err)
		}
		if _, err := h.Release(t.Context(), "uid-uplink", true); err != nil || h.held() == "" {
			t.Error("a dry run released it, or was refused:", err)
		}
		if _, err := h.Release(t.Context(), "uid-uplink", false); err != nil {
			t.Fatal(err)
		}
		h.expect("released", "eth0", "0 host weight 1\n2 late weight 1: vethlate\n")
		_, err = h.Release(t.Context(), "uid-uplink", false)
		refused(t, err, refusal.Unknown, "no allocation")
	})
}

// A pod that is attached takes the place of the one that an allocation awaits, and two claims of
// a pod add up; its policy may ask for more than they do.
func TestAllocationsAddUp(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, ingress: 50mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		h.start()
		for name, mins := range map[string][]string{"a": {"eth0=20mbit", "eth1=3mbit"}, "b": {"eth0=30mbit", "eth0 ingress=7mbit"}} {
			if err := h.claim(name, []string{"shop/web"}, mins...); err != nil {
				t.Fatal(name, err)
			}
		}
		h.pod("shop/web")
		h.expect("two claims", "eth0", "0 host weight 1\n1 shop/web weight 1 min 50 Mbit/s: veth-shop/web\n")
		h.expect("two links", "eth1", "0 host weight 1\n1 shop/web weight 1 min 3 Mbit/s: veth-shop/web\n")
		h.expect("ingress", "eth0 ingress", "0 host weight 1\n1 shop/web weight 1 min 7 Mbit/s: veth-shop/web\n")
		if _, err := h.Set(t.Context(), "shop/web", apitest.Change("min", "8mbit"), false); err != nil {
			t.Fatal(err)
		}
		h.expect("own min below its allocations", "eth0", "0 host weight 1\n1 shop/web weight 1 min 50 Mbit/s: veth-shop/web\n")
		h.expect("own min above its allocations", "eth1", "0 host weight 1\n1 shop/web weight 1 min 8 Mbit/s: veth-shop/web\n")
		_, err := h.Set(t.Context(), "shop/web", apitest.Change("max", "40mbit"), false)
		refused(t, err, refusal.Invalid, "50 Mbit/s is above the max, 40 Mbit/s")
		err = h.claim("c", []string{"shop/web"}, "eth1=8mbit")
		refused(t, err, refusal.NoRoom, "link eth1 has no room for it: asked 11 Mbit/s, reserved 0 bit/s of 10 Mbit/s")
		h.expectHeld("refused as a whole", `
			shop/a eth0 20 class 1
			shop/a eth1 3 class 1
			shop/b eth0 30 class 1
			shop/b eth0 ingress 7 class 1`)
	})
}

// Requests that are wrong change nothing and say what to do.
func TestAllocationsRefused(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, reservable: 80%}]", func(t *testing.T, h *host) {
		h.start()
		if err := h.claim("web", []string{"shop/web"}, "eth0=50mbit"); err != nil {
			t.Fatal(err)
		}
		one := []string{"shop/new"}
		for _, tt := range []struct {
			what, name string
			pods, mins []string
			kind       refusal.Kind
			text       string
		}{
			{"no room", "x", one, []string{"eth0=31mbit"}, refusal.NoRoom, "asked 31 Mbit/s, reserved 50 Mbit/s of the 80 Mbit/s that mins may take"},
			{"no room together", "x", append(one, "shop/more"), []string{"eth0=31mbit"}, refusal.NoRoom, "asked 31 Mbit/s"},
			{"unknown link", "x", one, []string{"eth9=1mbit"}, refusal.Unknown, "this host has eth0"},
			{"a direction that is not steered", "x", one, []string{"eth0 ingress=1mbit"}, refusal.Unknown, "eth0 ingress"},
			{"zero", "x", one, []string{"eth0=0mbit"}, refusal.Invalid, "leave the link out"},
			{"twice", "x", one, []string{"eth0=1mbit", "eth0=2mbit"}, refusal.Invalid, "is there twice"},
			{"nothing", "x", one, nil, refusal.Invalid, "an allocation of nothing"},
			{"pod twice", "x", []string{"shop/new", "shop/new"}, []string{"eth0=1mbit"}, refusal.Invalid, "name each pod once"},
			{"no pod's name", "x", []string{"web"}, []string{"eth0=1mbit"}, refusal.Invalid, "NAMESPACE/POD"},
			{"larger than all", "x", one, []string{"eth0=2000000000mbit"}, refusal.Invalid, "is no rate"},
		} {
			before := h.state("eth0")
			err := h.claim(tt.name, tt.pods, tt.mins...)
			refused(t, err, tt.kind, tt.text)
			if h.state("eth0") != before || strings.Contains(h.held(), "shop/x") {
				t.Errorf("%s: something changed", tt.what)
			}
		}
		_, err := h.Allocate(t.Context(), "other", allocation(t, "web", one, "eth0=1mbit"), false)
		refused(t, err, refusal.Conflict, "has an allocation already", "release that one first")
		h.kernel.RemoveDevice("eth0")
		seconds(2)
		refused(t, h.claim("y", one, "eth0=1mbit"), refusal.Busy, "link eth0 is not steered")
		if got := h.held(); !strings.Contains(got, "link eth0 is not steered") {
			t.Errorf("held: %s", got)
		}
	})
}

// Pods that share an allocation are a group with its min; an own allocation of one comes on top.
func TestSharedAllocation(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		shared := []string{"shop/a", "shop/b"}
		if err := h.claim("uplink", shared[:1], "eth0=60mbit"); err != nil {
			t.Fatal(err)
		}
		h.pod("shop/a")
		if err := h.claim("uplink", shared, "eth0=60mbit"); err != nil {
			t.Fatal(err)
		}
		h.expectGroups("a second pod", `
			1 shop/a in 3 min 0 bit/s
			2 shop/b in 3 min 0 bit/s
			3 claim.shop.uplink group weight 2 min 60 Mbit/s max 0 bit/s`)
		if err := h.claim("own", shared[1:], "eth0=15mbit"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Set(t.Context(), "shop/a", apitest.Change("weight", "4"), false); err != nil {
			t.Fatal(err)
		}
		h.expectGroups("an own claim, and weights", `
			1 shop/a in 3 min 0 bit/s
			2 shop/b in 3 min 15 Mbit/s
			3 claim.shop.uplink group weight 5 min 75 Mbit/s max 0 bit/s`)
		h.expectHeld("both", `
			shop/own eth0 15 class 2
			shop/uplink eth0 60 class 3`)
		status, _ := h.Status(t.Context())
		if l := status.Links[0]; l.ReservedBps != 75e6 || l.AllocatedBps != 75e6 {
			t.Errorf("%+v", l)
		}
		_, err := h.DeleteGroup(t.Context(), "claim.shop.uplink", false)
		refused(t, err, refusal.Conflict, "the group of an allocation")
		h.setGroup("claim.shop.taken", "weight=2")
		refused(t, h.claim("taken", []string{"shop/c", "shop/d"}, "eth0=1mbit"), refusal.Conflict, "there is a group claim.shop.taken")
		if _, err := h.DeleteGroup(t.Context(), "claim.shop.taken", false); err != nil {
			t.Fatal(err)
		}
		if err := h.claim("uplink", nil, "eth0=60mbit"); err != nil {
			t.Fatal(err)
		}
		h.expectGroups("all pods have gone", "3 claim.shop.uplink group weight 1 min 60 Mbit/s max 0 bit/s")
		if _, err := h.Release(t.Context(), "uid-uplink", false); err != nil {
			t.Fatal(err)
		}
		h.expectGroups("released", "")
	})
}

// The group of an allocation has a name that groups may have, whatever its claim is called, and
// clients can read it.
func TestNamesOfSharedAllocations(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		for i, claim := range []string{"up.link", "uplink", strings.Repeat("long-name.", 25) + "x", strings.Repeat("long-name.", 25) + "y", "Ümläute & more"} {
			if err := h.claim(claim, []string{fmt.Sprintf("shop/a%d", i), fmt.Sprintf("shop/b%d", i)}, "eth0=1mbit"); err != nil {
				t.Fatal(err)
			}
		}
		groups, err := h.Groups(t.Context())
		if err != nil || len(groups) != 5 {
			t.Fatalf("%d groups, %v", len(groups), err)
		}
		for _, g := range groups {
			if err := policy.CheckGroupName(g.Name); err != nil {
				t.Error(err)
			}
		}
		workloads, err := h.Workloads(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(workloads)
		if err == nil {
			err = json.Unmarshal(text, &workloads)
		}
		if err != nil {
			t.Errorf("what the API says cannot be read: %v", err)
		}
	})
}

// A pod in another group cannot share an allocation, and HTB has no groups.
func TestSharedAllocationNeedsGroups(t *testing.T) {
	inBubble(t, "groups: {shop: {min: 20mbit}}", func(t *testing.T, h *host) {
		h.start()
		h.pod("shop/a")
		h.join("shop/a", "shop")
		shared := []string{"shop/a", "shop/b"}
		refused(t, h.claim("uplink", shared, "eth0=10mbit"), refusal.Conflict, "shop/a is in group shop", "ResourceClaimTemplate")
		if err := h.claim("own", shared[:1], "eth0=30mbit"); err != nil {
			t.Error("a claim of its own in a group with a min:", err)
		}
		h.expectGroups("on top of the group's min", `
			1 shop group weight 1 min 50 Mbit/s max 0 bit/s
			2 shop/a in 1 min 30 Mbit/s`)
		h.stop()
		h.kernel.Lack(dataplane.Abilities{NoGroups: true})
		h.start()
		seconds(1)
		refused(t, h.claim("uplink", []string{"shop/c", "shop/d"}, "eth0=10mbit"), refusal.NotHeld, "link eth0 holds no groups", "ResourceClaimTemplate")
		h.expectHeld("without groups", "shop/own eth0 30 class 2")
	})
}

// A link that becomes too small for its allocations says which are not held.
func TestAllocationsOfSmallerLink(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		for i, name := range []string{"a", "b"} {
			if err := h.claim(name, []string{"shop/" + name}, fmt.Sprintf("eth0=%dmbit", 30+10*i)); err != nil {
				t.Fatal(err)
			}
		}
		h.reload("links: [{device: eth0, egress: 60mbit}]")
		h.expectHeld("60 Mbit/s", `
			shop/a eth0 30 class 1
			shop/b eth0 40 class 2 min: link eth0 has no room for it: asked 40 Mbit/s, reserved 30 Mbit/s of 60 Mbit/s, free 30 Mbit/s; ask for 30mbit or less, or lower the min of shop/a (30 Mbit/s)`)
		status, _ := h.Status(t.Context())
		if l := status.Links[0]; l.ReservedBps != 30e6 || l.AllocatedBps != 30e6 || l.FreeBps != 30e6 {
			t.Errorf("%+v", l)
		}
		h.reload("links: [{device: eth1, egress: 60mbit}]")
		if got := h.held(); strings.Count(got, `no link is called "eth0"`) != 2 {
			t.Errorf("without the link: %s", got)
		}
		h.reload("links: [{device: eth0, egress: 100mbit}]")
		seconds(2)
		h.expectHeld("back", "shop/a eth0 30 class 1\nshop/b eth0 40 class 2")
	})
}
