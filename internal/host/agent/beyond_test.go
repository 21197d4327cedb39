// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/host/agent/decide"
	"weir/internal/host/discover"
)

// Containers that are known by their cgroup, or by both.
func TestCgroupsArePorts(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			hosted, both, old := container("hosted", "weir.min=20mbit"), container("both"), container("old")
			hosted.Devices, hosted.Cgroups = nil, []string{"/cgroup2/hosted"}
			both.Cgroups = []string{"/cgroup2/both"}
			old.Devices, old.Note = nil, "uses the host's network: this host keeps its processes in cgroups of version 1"
			for _, w := range []discover.Workload{hosted, both, old} {
				list[w.Key] = w
			}
		})
		h.expect("marked by cgroup", "eth0", `
			0 host weight 1
			1 both weight 1: vethboth /cgroup2/both
			2 hosted weight 1 min 20 Mbit/s: /cgroup2/hosted`)
		if w := h.workload("hosted"); w.State != "active" || !slices.Equal(w.Cgroups, []string{"/cgroup2/hosted"}) {
			t.Errorf("%+v", w)
		}
		if w := h.workload("old"); w.State != "unsteered" || !strings.Contains(w.Note, "version 1") {
			t.Errorf("%+v", w)
		}
		h.docker.change(func(list map[string]discover.Workload) {
			w := list["docker:hosted"]
			w.Cgroups = nil // stopped, and still on the list
			list[w.Key] = w
		})
		h.expect("without its cgroup", "eth0", `
			0 host weight 1
			1 both weight 1: vethboth /cgroup2/both
			2 hosted weight 1 min 20 Mbit/s`)
		if w := h.workload("hosted"); w.State != "waiting" {
			t.Errorf("%+v", w)
		}
	})
}

// What a source calls a part of something is in the group of that name, if there is
// one and no setting says otherwise.
func TestGroupThatIsFound(t *testing.T) {
	inBubble(t, "labels: {allow: [group]}\ngroups: {db: {max: 40mbit}}\nworkloads: {db.2: {group: none}}\n", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			for name, vm := range map[string]string{"db": "db", "db.1": "db", "db.2": "db", "mail": "mail"} {
				w := container(name)
				w.Group = vm
				list[w.Key] = w
			}
		})
		h.run("last")
		for name, want := range map[string][2]string{"db": {"db", "found"}, "db.1": {"db", "found"}, "db.2": {"", "config"}, "mail": {"", "default"}} {
			if w := h.workload(name); w.State != "active" || w.Policy.Group != want[0] || w.Origin["group"] != want[1] {
				t.Errorf("%s is %s in group %q (%s), want %q", name, w.State, w.Policy.Group, w.Origin["group"], want)
			}
		}
	})
}

// A source may still report what was detached, or what only a dry run attached;
// what a pattern finds is expected for as long as the pattern is there.
func TestExpected(t *testing.T) {
	f := &finder{pending: map[string]*pending{"unit:soon": {}}}
	w := decide.World{
		Attached: []config.Attachment{{Name: "web", Unit: "nginx.service"}},
		Config:   config.Config{Attach: []config.Attachment{{Device: "vnet*"}, {Name: "vm", Device: "tap0"}}},
	}
	for key, want := range map[string]bool{
		"unit:web": true, "unit:soon": true, "unit:other": false, "vm:db": true, "dev:vm": true, "dev:tap1": false, "docker:x": true,
	} {
		kind, _, _ := strings.Cut(key, ":")
		if kind == "dev" {
			kind = "device"
		}
		if got := f.expected(discover.Workload{Key: key, Kind: kind}, w); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}
