// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/base/cgroup"
	"weir/internal/core/workload"
	"weir/internal/host/discover/engine"
	"weir/internal/host/discover/within"
)

var (
	idA = strings.Repeat("a", 64)
	idB = strings.Repeat("b", 64)
)

func running(id, name string, pid int) engine.Container {
	return engine.Container{ID: id, Name: name, Mode: "bridge", Running: true, Pid: pid}
}

func stopped(id, name string) engine.Container {
	return engine.Container{ID: id, Name: name, Mode: "bridge"}
}

// fixture is a Docker source in a made-up world with a made-up clock.
type fixture struct {
	*testing.T
	*fakeEngine
	links  *fakeLinks
	proc   fakeProc
	docker *Docker
	kinds  map[string][]within.Device // devices inside a namespace, by its path
	lists  [][]Workload
	cancel context.CancelFunc
}

// cgroup2 is where cgroups of version 2 are in a made-up world.
const cgroup2 = "/cgroup2"

// world runs a test in a bubble of testing/synctest.
func world(t *testing.T, e *fakeEngine, test func(*fixture)) {
	t.Helper()
	proc := newFakeProc(t)
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{T: t, fakeEngine: e, links: newFakeLinks(), proc: proc}
		w.docker = newDocker(logger(t), w.links, e, w.proc.dir)
		w.docker.cgroups = func() cgroup.Hierarchy { return cgroup.Hierarchy{Root: cgroup2} }
		w.docker.kinds = func(path string) ([]within.Device, error) { return w.kinds[path], nil }
		test(w)
		if w.cancel != nil {
			w.cancel()
			synctest.Wait()
		}
	})
}

// start runs the source.
func (w *fixture) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	go w.docker.Run(ctx, func(list []Workload) { w.lists = append(w.lists, list) })
	w.pass(2 * settle)
}

// pass lets time pass.
func (w *fixture) pass(d time.Duration) {
	time.Sleep(d) // of the bubble's clock
	synctest.Wait()
}

// process makes a container's process with a namespace of n devices.
func (w *fixture) process(pid int, id string, ifindexes ...int) (path string) {
	path = w.proc.add(w.T, pid, id)
	w.links.addNamespace(path, ifindexes...)
	return path
}

// expect compares the last list with lines such as "docker:web veth5 veth7".
func (w *fixture) expect(when string, want ...string) {
	w.Helper()
	if len(w.lists) == 0 {
		w.Fatalf("%s: nothing was reported", when)
	}
	var got []string
	for _, workload := range w.lists[len(w.lists)-1] {
		line := workload.Key
		for _, d := range workload.Devices {
			line += " " + d.Name
		}
		for _, folder := range workload.Cgroups {
			line += " " + folder
		}
		for _, folder := range workload.Sockets {
			line += " sockets " + folder
		}
		if workload.Note != "" {
			line += " (" + workload.Note + ")"
		}
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestDockerStartIsSeenBeforeTheEngineTells(t *testing.T) {
	world(t, newFakeEngine(stopped(idA, "web")), func(w *fixture) {
		w.start()
		w.expect("at first")
		release := w.hold(idA) // a real engine does not answer an inspect while it starts the container
		w.tell(idA, "connect")
		w.pass(2 * settle)
		w.expect("network connected, no process yet")
		w.process(42, idA, 5)
		w.pass(2 * settle)
		w.expect("process up", "docker:web veth5")
		path := w.lists[len(w.lists)-1][0].Devices[0].PeerNetns
		if path != netnsPath(w.proc.dir, 42) {
			t.Errorf("other end in %s, want the process's namespace", path)
		}
		w.set(running(idA, "web", 42), "start")
		release()
		count := len(w.lists)
		w.pass(time.Second)
		w.expect("started", "docker:web veth5")
		if len(w.lists) != count {
			t.Errorf("the same list was reported %d times more", len(w.lists)-count)
		}
	})
}

func TestDockerStartThatFails(t *testing.T) {
	world(t, newFakeEngine(stopped(idA, "web")), func(w *fixture) {
		w.start()
		w.tell(idA, "connect")
		path := w.process(42, idA, 5)
		w.pass(2 * settle)
		w.expect("process up", "docker:web veth5")
		w.links.dropNamespace(path)
		w.tell(idA, "disconnect")
		w.pass(2 * settle)
		w.expect("start given up")
	})
}

func TestDockerOutdatedAnswer(t *testing.T) {
	world(t, newFakeEngine(), func(w *fixture) {
		w.start()
		release := w.hold(idA)
		w.set(running(idA, "brief", 42), "start")
		w.process(42, idA, 5)
		w.pass(time.Second) // the engine is being asked and will say "runs"
		w.set(stopped(idA, "brief"), "die")
		release()
		w.pass(time.Second)
		w.expect("died while the engine was being asked")
	})
}

func TestDockerFirstListIsComplete(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1), running(idB, "b", 2))
	world(t, e, func(w *fixture) {
		w.process(1, idA, 5)
		w.process(2, idB, 7)
		release := w.hold(idB)
		w.start()
		w.pass(time.Second)
		if len(w.lists) != 0 {
			t.Fatalf("a list without b was reported: %v", w.lists)
		}
		release()
		w.pass(2 * settle)
		w.expect("all known", "docker:a veth5", "docker:b veth7")
	})
}

func TestDockerContainerThatTheEngineCannotDescribe(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1), running(idB, "b", 2))
	world(t, e, func(w *fixture) {
		w.process(1, idA, 5)
		w.process(2, idB, 7)
		release := w.hold(idB)
		w.start()
		w.pass(2 * patience)
		w.expect("b does not answer", "docker:a veth5")
		w.pass(2 * lookTimeout) // asked again after each timeout
		release()
		w.pass(lookTimeout)
		w.expect("b answers", "docker:a veth5", "docker:b veth7")
	})
}

func TestDockerEngineAway(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1), running(idB, "b", 2))
	world(t, e, func(w *fixture) {
		pathA := w.process(1, idA, 5)
		w.process(2, idB, 7)
		w.start()
		w.expect("at first", "docker:a veth5", "docker:b veth7")
		w.setDown(errors.New("connection refused"))
		w.pass(10 * time.Second)
		w.expect("engine away, containers not", "docker:a veth5", "docker:b veth7")
		if state, note := w.docker.Status(); state != workload.SourceUnavailable || !strings.Contains(note, "unix:///fake.sock: connection refused") {
			t.Errorf("status %q %q", state, note)
		}
		w.links.dropNamespace(pathA)
		w.pass(2 * settle)
		w.expect("a ended", "docker:b veth7")
		w.process(3, idA, 9)
		w.pass(2 * settle)
		w.expect("a was started by an engine that does not answer yet", "docker:a veth9", "docker:b veth7")
		w.set(running(idA, "a", 3))
		w.remove(idB)
		w.setDown(nil)
		w.pass(lastRetry + 2*settle)
		w.expect("engine back without b", "docker:a veth9")
		if state, note := w.docker.Status(); state != workload.SourceOK || note != "" {
			t.Errorf("status %q %q", state, note)
		}
	})
}

func TestDockerEngineAbsent(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1))
	e.setDown(errors.New("no such file or directory"))
	world(t, e, func(w *fixture) {
		w.process(1, idA, 5)
		w.start()
		w.pass(time.Minute)
		if len(w.lists) != 0 {
			t.Errorf("reported %v without an engine", w.lists)
		}
		w.setDown(nil)
		w.pass(lastRetry + 2*settle)
		w.expect("engine there", "docker:a veth5")
	})
}

func TestDockerWorkloads(t *testing.T) {
	in := func(mode string) engine.Container {
		return engine.Container{ID: idA, Name: "c", Mode: mode, Networks: []string{mode}, Running: true, Pid: 1}
	}
	const scope = "/system.slice/docker-"
	unified := "0::" + scope + strings.Repeat("a", 64) + ".scope"
	folder := cgroup2 + scope + idA + ".scope"
	macvlan := []within.Device{{Name: "lo", Kind: "device"}, {Name: "eth0", Kind: "macvlan"}}
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, cgroup string // as in /proc/PID/cgroup
		hierarchy    cgroup.Hierarchy
		kinds        []within.Device
		info         engine.Container
		devices      []int
		users        string // the user namespace, of a process with CAP_NET_ADMIN
		want         string
	}{
		{name: "bridge", info: running(idA, "c", 1), devices: []int{5}, want: "docker:c veth5"},
		{name: "bridge, version 2", info: running(idA, "c", 1), cgroup: unified, devices: []int{5}, want: "docker:c veth5 sockets " + folder},
		{name: "bridge, CAP_NET_ADMIN", info: running(idA, "c", 1), cgroup: unified, devices: []int{5}, users: ours, want: "docker:c veth5 sockets " + folder + " (" + reaching + ")"},
		{name: "bridge, CAP_NET_ADMIN of its own", info: running(idA, "c", 1), cgroup: unified, devices: []int{5}, users: "user:[1]", want: "docker:c veth5 sockets " + folder},
		{name: "host", info: in("host"), cgroup: unified, want: "docker:c " + folder},
		{name: "host, too deep", info: in("host"), cgroup: "0::" + strings.Repeat("/a", 15) + "/" + idA,
			want: "docker:c (uses the host's network, and its cgroup is 16 levels below the top, and packets are told apart by at most 15; give it a parent nearer to the top)"},
		{name: "host, deep", info: in("host"), cgroup: "0::" + strings.Repeat("/a", 14) + "/" + idA, want: "docker:c " + cgroup2 + strings.Repeat("/a", 14) + "/" + idA},
		{name: "host, a process deeper inside", info: in("host"), cgroup: unified + "/init", want: "docker:c " + folder},
		{name: "host, without systemd", info: in("host"), cgroup: "0::/docker/" + idA, want: "docker:c " + cgroup2 + "/docker/" + idA},
		{name: "host, version 1", info: in("host"), cgroup: "2:cpu:/docker/" + idA + "\n0::/", hierarchy: cgroup.Hierarchy{Root: "/none", Legacy: true},
			want: "docker:c (uses the host's network: this host keeps its processes in cgroups of version 1, which cannot mark packets; boot with systemd.unified_cgroup_hierarchy=1)"},
		{name: "host, agent in a container", info: in("host"), cgroup: "0::/../" + idA,
			want: "docker:c (uses the host's network, and its processes are in no cgroup of its own that is to be seen from here; run the agent on the host itself (in a container: with --cgroupns host --pid host))"},
		{name: "macvlan", info: in("mac"), kinds: macvlan, cgroup: unified, want: "docker:c " + folder},
		{name: "macvlan, no cgroup2", info: in("mac"), kinds: macvlan, cgroup: "2:cpu:/docker/" + idA, hierarchy: cgroup.Hierarchy{Legacy: true},
			want: "docker:c (its device eth0 is stacked on one of the host's: this host has no cgroups of version 2, by which the packets of processes are told apart; boot with systemd.unified_cgroup_hierarchy=1, or where no systemd runs: mount -t cgroup2 none /sys/fs/cgroup)"},
		{name: "bridge and macvlan", info: engine.Container{ID: idA, Name: "c", Mode: "bridge", Networks: []string{"bridge", "mac"}, Running: true, Pid: 1},
			kinds: macvlan, cgroup: unified, devices: []int{5}, want: "docker:c veth5 " + folder},
		{name: "ipvlan", info: in("ip"), kinds: []within.Device{{Name: "eth0", Kind: "ipvlan", Mode: "l3"}}, cgroup: unified,
			want: "docker:c " + folder + " (its device eth0 is of kind ipvlan in mode l3, which takes every mark off a packet; use mode l2 or a bridge network)"},
		{name: "shared", info: in("container:" + idB),
			want: "docker:c (shares the network of container other: what that one is given holds for both)"},
		{name: "shared with an unknown one", info: in("container:gone"),
			want: "docker:c (shares the network of container gone: what that one is given holds for both)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			world(t, newFakeEngine(c.info, running(idB, "other", 2)), func(w *fixture) {
				w.kinds = map[string][]within.Device{w.process(1, idA, c.devices...): c.kinds}
				if c.cgroup != "" {
					w.proc.enter(t, 1, c.cgroup)
				}
				if c.users != "" {
					w.proc.mayAdmin(t, 1, c.users)
				}
				if c.hierarchy != (cgroup.Hierarchy{}) {
					w.docker.cgroups = func() cgroup.Hierarchy { return c.hierarchy }
				}
				w.process(2, idB, 7)
				w.start()
				w.expect("at first", c.want, "docker:other veth7")
			})
		})
	}
}

// A container on a macvlan whose first thread has ended, and whose others send, is still seen: its
// packets would be the host's.
func TestDockerEndedThread(t *testing.T) {
	info := running(idA, "c", 1)
	info.Networks = []string{"mac"}
	world(t, newFakeEngine(info), func(w *fixture) {
		w.process(1, idA)
		w.proc.enter(t, 1, "0::/docker/"+idA)
		w.kinds = map[string][]within.Device{w.proc.endThread(t, 1, 2): {{Name: "eth0", Kind: "macvlan"}}}
		w.start()
		w.expect("at first", "docker:c "+cgroup2+"/docker/"+idA)
	})
}

// A container whose first process leaves the network namespace that it began in is known by the
// namespace that the engine made, where the agent sees its file, and by its cgroup in any case.
func TestDockerProcessElsewhere(t *testing.T) {
	const made, folder = "/run/docker/netns/1a2b", cgroup2 + "/docker/"
	unknown := "docker:c " + folder + idA + " (" + noDevice + bySockets + ")"
	for _, c := range []struct {
		name    string
		sandbox string // below /proc where the engine's file is seen, "" = nowhere
		devices []int  // of the host, whose other ends are in the namespace that the engine made
		admin   bool   // the process may have CAP_NET_ADMIN
		network string
		want    string
	}{
		{name: "macvlan", sandbox: "900/root", network: "mac", want: "docker:c " + folder + idA},
		{name: "macvlan, no file", network: "mac", want: unknown},
		{name: "macvlan, no file, CAP_NET_ADMIN", network: "mac", admin: true, want: "docker:c " + folder + idA + " (" + unheld(noDevice) + ")"},
		{name: "bridge", sandbox: "900/root", network: "bridge", devices: []int{5}, want: "docker:c veth5 sockets " + folder + idA},
		{name: "bridge, no file", network: "bridge", devices: []int{5}, want: unknown},
		{name: "none", network: "none", want: "docker:c " + folder + idA + " (has no network (it was started with --network none))"},
	} {
		t.Run(c.name, func(t *testing.T) {
			info := running(idA, "c", 1)
			info.Mode, info.Networks, info.Sandbox = c.network, []string{c.network}, made
			world(t, newFakeEngine(info), func(w *fixture) {
				inner := w.process(1, idA)
				w.proc.enter(t, 1, "0::/docker/"+idA)
				if c.admin {
					w.proc.mayAdmin(t, 1, "user:[1]")
				}
				w.kinds = map[string][]within.Device{inner: {{Name: "lo", Kind: "device"}}}
				if c.sandbox != "" {
					path := filepath.Join(w.proc.dir, c.sandbox, made)
					w.links.addNamespace(path, c.devices...)
					w.kinds[path] = []within.Device{{Name: "lo", Kind: "device"}, {Name: "eth0", Kind: "macvlan"}}
				}
				w.start()
				w.expect("at first", c.want)
				for _, d := range w.lists[len(w.lists)-1][0].Devices {
					if d.PeerNetns == inner {
						t.Errorf("the other end of %s is said to be in %s", d.Name, inner)
					}
				}
			})
		})
	}
}

// A container with two networks loses its last device without an event of the engine: its process
// has moved the other end away.
func TestDockerLosesItsDevices(t *testing.T) {
	info := running(idA, "c", 1)
	info.Networks = []string{"one", "two"}
	world(t, newFakeEngine(info), func(w *fixture) {
		path := w.process(1, idA, 5)
		w.proc.enter(t, 1, "0::/docker/"+idA)
		w.start()
		w.expect("one device", "docker:c veth5 sockets "+cgroup2+"/docker/"+idA)
		w.links.change(func() { w.links.ends[w.links.namespaces[path]] = nil })
		w.pass(2 * settle)
		w.expect("none", "docker:c "+cgroup2+"/docker/"+idA+" ("+noDevice+bySockets+")")
	})
}

// A container is put into a macvlan network while it runs.
func TestDockerSecondNetwork(t *testing.T) {
	info := running(idA, "c", 1)
	info.Networks = []string{"bridge"}
	world(t, newFakeEngine(info), func(w *fixture) {
		path := w.process(1, idA, 5)
		w.proc.enter(t, 1, "0::/docker/"+idA)
		w.start()
		w.expect("at first", "docker:c veth5 sockets "+cgroup2+"/docker/"+idA)
		w.kinds = map[string][]within.Device{path: {{Name: "eth1", Kind: "macvlan"}}}
		info.Networks = []string{"bridge", "mac"}
		w.set(info, "connect")
		w.pass(2 * settle)
		w.expect("in both", "docker:c veth5 "+cgroup2+"/docker/"+idA)
	})
}

func TestDockerRename(t *testing.T) {
	world(t, newFakeEngine(running(idA, "old", 1)), func(w *fixture) {
		w.process(1, idA, 5)
		w.start()
		w.set(running(idA, "new", 1), "rename")
		w.pass(2 * settle)
		w.expect("renamed", "docker:new veth5")
	})
}

func TestNoteForKinds(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		kinds      []within.Device
		want       string
	}{
		{"not up yet", "bridge", []within.Device{{Name: "lo", Kind: "device"}}, ""},
		{"none", "none", []within.Device{{Name: "lo", Kind: "device"}}, "has no network"},
		{"macvlan", "mac", []within.Device{{Name: "lo", Kind: "device"}, {Name: "eth0", Kind: "macvlan"}}, ""},
		{"ipvlan l2", "ip", []within.Device{{Name: "eth1", Kind: "ipvlan", Mode: "l2"}}, ""},
		{"ipvlan l3s", "ip", []within.Device{{Name: "eth1", Kind: "ipvlan", Mode: "l3s"}}, "eth1 is of kind ipvlan in mode l3s"},
		{"hardware", "x", []within.Device{{Name: "lo", Kind: "device"}, {Name: "eth0", Kind: "device"}}, "eth0 is hardware"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := noteForKinds(c.mode, c.kinds)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFindProcesses(t *testing.T) {
	proc, links := newFakeProc(t), newFakeLinks()
	links.addNamespace(proc.add(t, 10, idA), 5)
	links.addNamespace(proc.add(t, 11, idA)) // in another namespace than the one looked for
	links.addNamespace(proc.add(t, 12, idB), 7)
	proc.add(t, 13, idA) // in a namespace that no device of the host reaches
	links.addNamespace(proc.add(t, 14, "no id"), 9)
	got := findProcesses(proc.dir, links, map[string]bool{idA: true}, map[int]bool{0: true, 2: true, 3: true})
	if want := map[string]int{idA: 10}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCgroupContainer(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"cgroup v1", "12:pids:/docker/" + idA + "\n1:name=systemd:/docker/" + idA + "\n", idA},
		{"systemd", "0::/system.slice/docker-" + idA + ".scope\n", idA},
		{"own parent", "0::/weir-docker-1/" + idA + "\n", idA},
		{"engine in a container", "0::/docker/" + idA + "/docker/" + idB + "\n", idA},
		{"seen from a cgroup namespace", "0::/../../docker/" + idA + "\n", idA},
		{"host process", "0::/user.slice/session-1.scope\n", ""},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cgroupContainer(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
