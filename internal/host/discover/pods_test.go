// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/host/discover/within"
)

// podLines returns the workloads as "pod:a/b ID veth1 veth2 kubepods/x (note) sockets kubepods/x".
func (c cgroupTree) podLines(list []Workload) []string {
	lines := c.lines(list)
	for i, w := range list {
		devices := ""
		for _, d := range w.Devices {
			devices += " " + d.Name
		}
		lines[i] = strings.Replace(lines[i], w.Key, w.Key+" "+w.ID+devices, 1)
		for _, folder := range w.Sockets {
			lines[i] += " sockets " + strings.TrimPrefix(folder, c.root+"/")
		}
	}
	return lines
}

// TestPods: a pod has all veths of its namespace, without them its cgroup, and stays until it is
// removed.
func TestPods(t *testing.T) {
	c, links := newCgroupTree(t), newFakeLinks()
	c.add("kubepods/burstable/pod1")
	links.addNamespace("/run/netns/a", 3, 5)
	p := newPods(logger(t), links, c.read)
	failed := false // once, for c
	p.kinds = func(path string) ([]within.Device, error) {
		if path == "/run/netns/c" && !failed {
			failed = true
			poke(p.poke) // something else happens later
			return nil, errors.New("busy")
		}
		return map[string][]within.Device{"/run/netns/c": {{Name: "eth0", Kind: "veth"}, {Name: "net1", Kind: "macvlan"}}}[path], nil
	}
	r := runSource(t, p)
	expect := func(when string, want ...string) {
		t.Helper()
		r.wait(fmt.Sprintf("%s: %q", when, want), func(list []Workload) bool { return slices.Equal(c.podLines(list), want) })
	}
	expect("nothing")
	p.Put("shop/web", Pod{ID: "s1", Netns: "/run/netns/a", Cgroup: "/kubepods/burstable/pod1"})
	expect("two interfaces", "pod:shop/web s1 veth3 veth5 sockets kubepods/burstable/pod1")
	p.Put("kube/proxy", Pod{ID: "s2", Cgroup: "/kubepods/burstable/pod1"})
	p.Put("shop/late", Pod{ID: "uid"})
	expect("host network, and none yet", "pod:kube/proxy s2 kubepods/burstable/pod1", "pod:shop/late uid", "pod:shop/web s1 veth3 veth5 sockets kubepods/burstable/pod1")
	links.dropNamespace("/run/netns/a")
	expect("its namespace is gone", "pod:kube/proxy s2 kubepods/burstable/pod1", "pod:shop/late uid", "pod:shop/web s1 kubepods/burstable/pod1")
	links.addNamespace("/run/netns/b", 7)
	p.Put("shop/web", Pod{ID: "s3", Netns: "/run/netns/b", Cgroup: "/kubepods/burstable/pod1"})
	expect("another sandbox", "pod:kube/proxy s2 kubepods/burstable/pod1", "pod:shop/late uid", "pod:shop/web s3 veth7 sockets kubepods/burstable/pod1")
	if devices, cgroups := p.Look(Pod{Netns: "/run/netns/b", Cgroup: "/x"}); len(devices) != 1 || devices[0].PeerNetns != "/run/netns/b" || cgroups != nil {
		t.Errorf("%v, %v", devices, cgroups)
	}
	if devices, cgroups := p.Look(Pod{Netns: "/run/netns/none", Cgroup: "/x"}); devices != nil || !slices.Equal(cgroups, []string{filepath.Join(c.root, "x")}) {
		t.Errorf("%v, %v", devices, cgroups)
	}
	links.addNamespace("/run/netns/c", 8)
	p.Put("shop/web", Pod{ID: "s4", Netns: "/run/netns/c", Cgroup: "/kubepods/burstable/pod1"})
	expect("a macvlan beside its veth", "pod:kube/proxy s2 kubepods/burstable/pod1", "pod:shop/late uid", "pod:shop/web s4 veth8 kubepods/burstable/pod1")
	if devices, cgroups := p.Look(Pod{Netns: "/run/netns/c", Cgroup: "/x"}); len(devices) != 1 || !slices.Equal(cgroups, []string{filepath.Join(c.root, "x")}) {
		t.Errorf("%v, %v", devices, cgroups)
	}
	for _, name := range []string{"shop/web", "shop/late", "kube/proxy"} {
		if err := p.Remove(name); err != nil {
			t.Error(err)
		}
	}
	expect("removed")
	if err := p.Remove("shop/web"); err == nil || !strings.Contains(err.Error(), "shop/web") {
		t.Errorf("%v", err)
	}
}

// TestPodsOfTheKernel: the same with real network namespaces.
func TestPodsOfTheKernel(t *testing.T) {
	h := newTestHost(t)
	c := newCgroupTree(t)
	p := newPods(logger(t), runLinks(t, h.path), c.read)
	r := runSource(t, p)
	expect := func(when string, want ...string) {
		t.Helper()
		r.wait(fmt.Sprintf("%s: %q", when, want), func(list []Workload) bool { return slices.Equal(c.podLines(list), want) })
	}
	first, end := newTestNetns(t)
	h.veth("vpod1", first)
	p.Put("shop/web", Pod{ID: "s1", Netns: first})
	expect("one interface", "pod:shop/web s1 vpod1")
	h.veth("vpod2", first)
	expect("a second", "pod:shop/web s1 vpod1 vpod2")
	end()
	expect("its namespace is gone", "pod:shop/web s1")
	second, _ := newTestNetns(t)
	h.veth("vpod3", second)
	p.Put("shop/web", Pod{ID: "s2", Netns: second})
	expect("another sandbox", "pod:shop/web s2 vpod3")
}

// A pod with a macvlan and CAP_NET_ADMIN forwards what has no socket; the note says so.
func TestPodsThatMayForward(t *testing.T) {
	links, c := newFakeLinks(), newCgroupTree(t)
	p := newPods(logger(t), links, c.read)
	p.kinds = func(string) ([]within.Device, error) { return []within.Device{{Name: "net1", Kind: "macvlan"}}, nil }
	links.addNamespace("/run/netns/a", 7)
	c.add("kubepods/pod1/container")
	p.Put("shop/web", Pod{ID: "s1", Netns: "/run/netns/a", Cgroup: "/kubepods/pod1"})
	note := func() string {
		list, _ := p.list()
		return list[0].Note
	}
	if got := note(); got != "" {
		t.Errorf("without a process: %q", got)
	}
	procs := filepath.Join(c.root, "kubepods/pod1/container/cgroup.procs")
	if err := os.WriteFile(procs, fmt.Append(nil, os.Getpid(), "\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := note(); !strings.Contains(got, "net1") || !strings.Contains(got, "CAP_NET_ADMIN") {
		t.Errorf("with one that may do anything: %q", got)
	}
}
