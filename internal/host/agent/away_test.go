// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// TestMinIsKeptForARestart: no workload is admitted to the min of a container that is
// away for seconds; one is when the container stays away.
func TestMinIsKeptForARestart(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.weight=3")
		h.set("web", "min=60mbit")
		h.run("db")
		h.kill("web")
		h.expect("away", "eth0", "0 host weight 1\n1 web weight 3 min 60 Mbit/s\n2 db weight 1: vethdb")
		if w := h.workload("web"); w.State != "waiting" {
			t.Errorf("while it is away: state %s", w.State)
		}
		seconds(20)
		_, err := h.Set(t.Context(), "db", change("min=60mbit"), false)
		refused(t, err, refusal.NoRoom, "reserved 60 Mbit/s")
		h.run("web", "weir.weight=3")
		h.expect("back", "eth0", "0 host weight 1\n1 web weight 3 min 60 Mbit/s: vethweb\n2 db weight 1: vethdb")
		seconds(60)
		h.expect("it stays", "eth0", "0 host weight 1\n1 web weight 3 min 60 Mbit/s: vethweb\n2 db weight 1: vethdb")
		h.kill("web")
		seconds(31)
		h.expect("given up", "eth0", "0 host weight 1\n2 db weight 1: vethdb")
		h.set("db", "min=60mbit")
	})
}

// TestNothingIsKept: of a container without a min, of one that was renamed, and of
// one whose min was taken away while it is away.
func TestNothingIsKept(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("plain")
		h.run("web")
		h.set("web", "min=60mbit")
		h.kill("plain")
		h.docker.change(func(list map[string]discover.Workload) {
			w := list["docker:web"]
			delete(list, "docker:web")
			w.Key, w.Name = "docker:front", "front"
			list[w.Key] = w
		})
		h.expect("renamed", "eth0", "0 host weight 1\n2 front weight 1 min 60 Mbit/s: vethweb")
		h.run("db")
		h.kill("front")
		h.set("front", "min=none")
		h.set("db", "min=90mbit")
	})
}

// TestRemovedPodWithOpenSockets: a pod that was removed has its class, within its limits and
// without its min, until its last socket is closed, for the next agent too. A pod of its name that
// follows has nothing of its settings.
func TestRemovedPodWithOpenSockets(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		open := map[plan.ClassID]bool{1: true}
		h.open = func() (map[plan.ClassID]bool, error) { return open, nil }
		h.start()
		pod := func(name, id, policy string) {
			t.Helper()
			req := api.AttachRequest{Name: "default/" + name, Pod: id, Cgroup: "/sys/fs/cgroup/" + name}
			if policy != "" {
				req.Policy = change(policy)
			}
			h.attachPod(req)
			seconds(1)
		}
		remove := func(name string) {
			t.Helper()
			if _, err := h.Detach(t.Context(), "default/"+name, false); err != nil {
				t.Fatal(err)
			}
		}
		pod("web", "s1", "min=20mbit max=40mbit")
		pod("db", "s2", "max=30mbit")
		h.expect("both", "eth0", "0 host weight 1\n1 default/web weight 1 min 20 Mbit/s max 40 Mbit/s: /sys/fs/cgroup/web\n2 default/db weight 1 max 30 Mbit/s: /sys/fs/cgroup/db")
		remove("web")
		remove("db")
		if id := h.workload("default/web").ID; id != "" {
			t.Errorf("its id is %s, so that weir-kubernetes would detach it again and again", id)
		}
		seconds(60)
		h.expect("one has a socket", "eth0", "0 host weight 1\n1 default/web weight 1 max 40 Mbit/s")
		h.stop()
		h.start()
		seconds(60)
		h.expect("the next agent", "eth0", "0 host weight 1\n1 default/web weight 1 max 40 Mbit/s")
		pod("web", "s3", "")
		h.expect("another pod of that name", "eth0", "0 host weight 1\n1 default/web weight 1: /sys/fs/cgroup/web")
		remove("web")
		delete(open, 1)
		seconds(4)
		h.expect("closed", "eth0", "0 host weight 1")
		h.stop()
		h.start()
		seconds(4)
		h.expect("closed, the next agent", "eth0", "0 host weight 1")
	})
}

// A pod that is removed before its source has seen it leaves nothing, but what the source finds of
// it within half a minute is within its limits.
func TestPodThatNoSourceHasSeen(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.netns.deaf(true)
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s1", Netns: "/run/netns/a", Policy: change("max=40mbit")})
		h.expect("attached", "eth0", "0 host weight 1\n1 default/web weight 1 max 40 Mbit/s: veth-default/web")
		if _, err := h.Detach(t.Context(), "default/web", false); err != nil {
			t.Fatal(err)
		}
		h.expect("removed", "eth0", "0 host weight 1")
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s2", Netns: "/run/netns/b"})
		h.expect("another of its name", "eth0", "0 host weight 1\n1 default/web weight 1: veth-default/web")
		if _, err := h.Detach(t.Context(), "default/web", false); err != nil {
			t.Fatal(err)
		}
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s3", Netns: "/run/netns/c", Policy: change("max=40mbit")})
		if _, err := h.Detach(t.Context(), "default/web", false); err != nil {
			t.Fatal(err)
		}
		left := discover.Workload{Key: workload.Key(workload.KindPod, "default/web"), Name: "default/web", Kind: workload.KindPod, Ended: true,
			Devices: []discover.Device{{Name: "veth-default/web", Ifindex: ifindexOf("veth-default/web"), Held: true}}}
		h.netns.deaf(false)
		h.netns.change(func(list map[string]discover.Workload) { list[left.Key] = left })
		seconds(5)
		h.expect("its device is there", "eth0", "0 host weight 1\n1 default/web weight 1 max 40 Mbit/s: veth-default/web")
		h.netns.change(func(list map[string]discover.Workload) { delete(list, left.Key) })
		seconds(60)
		h.expect("gone", "eth0", "0 host weight 1")
	})
}

// TestEndedWithOpenSockets: a container with the host's network that has ended has its class, with
// its policy, until its last socket is closed, for the next agent too. One whose sockets went with
// it is gone 2 s later.
func TestEndedWithOpenSockets(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		open := map[plan.ClassID]bool{}
		h.open = func() (map[plan.ClassID]bool, error) { return open, nil }
		h.start()
		for _, name := range []string{"web", "db"} {
			h.docker.change(func(list map[string]discover.Workload) {
				key := workload.Key(workload.KindDocker, name)
				list[key] = discover.Workload{Key: key, Name: name, Kind: workload.KindDocker, Cgroups: []string{"/sys/fs/cgroup/" + name}, Note: "may forward"}
			})
			seconds(1)
			h.set(name, "max=5mbit")
		}
		h.expect("both", "eth0", "0 host weight 1\n1 web weight 1 max 5 Mbit/s: /sys/fs/cgroup/web\n2 db weight 1 max 5 Mbit/s: /sys/fs/cgroup/db")
		open[1] = true
		h.kill("web")
		h.kill("db")
		seconds(60)
		h.expect("one has a socket", "eth0", "0 host weight 1\n1 web weight 1 max 5 Mbit/s")
		h.stop()
		h.start()
		seconds(60)
		h.expect("the next agent", "eth0", "0 host weight 1\n1 web weight 1 max 5 Mbit/s")
		delete(open, 1)
		seconds(2)
		h.expect("closed", "eth0", "0 host weight 1")
	})
}
