// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/dataplane/fake"
	"weir/internal/discover"
)

// inBubble runs a test on a host in synthetic time, so that seconds pass at
// once and "everything has happened" is a fact.
func inBubble(t *testing.T, config string, test func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, config)
		test(t, h)
		h.stop()
		if t.Failed() {
			t.Log(h.log.String())
		}
	})
}

func TestLayers(t *testing.T) {
	inBubble(t, `
defaults: {weight: 2}
workloads:
  "w*": {max: 50mbit, min: 5mbit}
  web: {max: 60mbit}
`, func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.min=10mbit", "weir.limit-packets=500")
		h.run("db")
		h.expect("labels over configuration over default", "eth0", `
			0 host weight 2
			1 web weight 2 min 10 Mbit/s max 60 Mbit/s limit 500/0: vethweb
			2 db weight 2: vethdb`)
		h.set("web", "weight=7 max=none")
		h.expect("run time over all", "eth0", `
			0 host weight 2
			1 web weight 7 min 10 Mbit/s limit 500/0: vethweb
			2 db weight 2: vethdb`)
		w := h.workload("web")
		want := map[string]string{"weight": "set", "min": "label", "max": "set", "limit_packets": "label", "limit_bytes": "default"}
		for field, origin := range want {
			if w.Origin[field] != origin {
				t.Errorf("origin of %s is %q, want %q", field, w.Origin[field], origin)
			}
		}
		if w.Policy != (api.Policy{Weight: 7, Min: "10mbit", LimitPackets: 500}) || w.State != "active" || w.Class != 1 {
			t.Errorf("workload %+v", w)
		}
		h.set("web", "reset")
		h.expect("reset", "eth0", `
			0 host weight 2
			1 web weight 2 min 10 Mbit/s max 60 Mbit/s limit 500/0: vethweb
			2 db weight 2: vethdb`)
	})
}

func TestBadLabels(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.wieght=3", "weir.min=20mbps", "weir.max=50mbit")
		h.expect("good labels count", "eth0", "0 host weight 1\n1 web weight 1 max 50 Mbit/s: vethweb")
		w := h.workload("web")
		for _, words := range []string{"did you mean weir.weight?", "label weir.min", "160mbit"} {
			if !strings.Contains(w.Note, words) {
				t.Errorf("note %q does not say %q", w.Note, words)
			}
		}
		if w.State != "active" {
			t.Errorf("state %s", w.State)
		}
	})
}

// TestRestart: an agent that starts again changes nothing, and knows what was
// set at run time, also for a container that was away in between.
func TestRestart(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("c", "weir.min=40mbit")
		h.run("b")
		h.run("a", "weir.min=50mbit")
		h.set("b", "weight=5")
		h.set("host", "weight=2")
		const want = `
			0 host weight 2
			1 c weight 1 min 40 Mbit/s: vethc
			2 b weight 5: vethb
			3 a weight 1 min 50 Mbit/s: vetha`
		h.expect("before", "eth0", want)
		h.stop()
		h.expect("nothing stops with the agent", "eth0", want)
		sets := h.kernel.Sets("eth0")
		h.docker.mute = true // the engine takes its time
		h.start()
		seconds(60)
		h.expect("engine silent", "eth0", want)
		h.docker.mute = false
		h.docker.change(func(map[string]discover.Workload) {})
		seconds(2)
		h.expect("after", "eth0", want)
		if got := h.kernel.Sets("eth0"); got != sets {
			t.Errorf("%d changes by a restart", got-sets)
		}
		h.kill("b")
		h.stop()
		h.start()
		h.run("b")
		h.expect("back with what was set", "eth0", want)
	})
}

func TestRename(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.run("db")
		h.set("web", "min=60mbit")
		h.set("db", "min=30mbit")
		h.docker.change(func(list map[string]discover.Workload) {
			w := list["docker:web"]
			delete(list, "docker:web")
			w.Key, w.Name = "docker:front", "front"
			list[w.Key] = w
		})
		h.expect("class, place and settings go along", "eth0", `
			0 host weight 1
			1 front weight 1 min 60 Mbit/s: vethweb
			2 db weight 1 min 30 Mbit/s: vethdb`)
		_, err := h.Workload(t.Context(), "web")
		refused(t, err, 404)
	})
}

// TestAdmission: a request that does not fit changes nothing; a label that does
// not fit waits for room, and never takes it from somebody.
func TestAdmission(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, reservable: 80%}]", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.min=50mbit")
		h.run("b")
		before := h.state("eth0")
		_, err := h.Set(t.Context(), "b", change("min=40mbit weight=9"), false)
		refused(t, err, 409, "asked 40 Mbit/s", "reserved 50 Mbit/s", "free 30 Mbit/s", "30mbit")
		h.expect("refused as a whole", "eth0", before)
		if w := h.workload("b"); w.Origin["weight"] != "default" {
			t.Errorf("half of a refused change was kept: %+v", w.Origin)
		}
		h.run("c", "weir.min=40mbit", "weir.weight=4")
		h.expect("steered without its min", "eth0", `
			0 host weight 1
			1 a weight 1 min 50 Mbit/s: vetha
			2 b weight 1: vethb
			3 c weight 4: vethc`)
		w := h.workload("c")
		if w.State != "refused" || !strings.Contains(w.Note, "free 30 Mbit/s") {
			t.Errorf("state %s, note %q", w.State, w.Note)
		}
		h.set("c", "weight=5") // is no matter of the min
		h.set("b", "min=20mbit")
		_, err = h.Set(t.Context(), "a", change("min=70mbit"), false)
		refused(t, err, 409, "free 60 Mbit/s")
		h.kill("a")
		seconds(31) // it does not come back, see TestMinIsKeptForARestart
		h.expect("room came free", "eth0", `
			0 host weight 1
			2 b weight 1 min 20 Mbit/s: vethb
			3 c weight 5 min 40 Mbit/s: vethc`)
		if w := h.workload("c"); w.State != "active" || w.Note != "" {
			t.Errorf("state %s, note %q", w.State, w.Note)
		}
		h.run("a", "weir.min=50mbit")
		if w := h.workload("a"); w.State != "refused" {
			t.Errorf("who came later displaced somebody: %+v", w)
		}
		s, err := h.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l := s.Links[0]; l.ReservedBps != 60e6 || l.FreeBps != 20e6 || l.Workloads != 3 {
			t.Errorf("link %+v", l)
		}
	})
}

// TestSeniorityInConfiguration: raising one's min puts one behind those who
// have theirs.
func TestSeniorityInConfiguration(t *testing.T) {
	inBubble(t, "workloads: {a: {min: 30mbit}, b: {min: 60mbit}}", func(t *testing.T, h *host) {
		next := parse(t, "workloads: {a: {min: 50mbit}, b: {min: 60mbit}}")
		h.load = func() (config.Config, error) { return next, nil }
		h.start()
		h.run("a")
		h.run("b")
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		h.expect("b keeps its min", "eth0", "0 host weight 1\n1 a weight 1: vetha\n2 b weight 1 min 60 Mbit/s: vethb")
	})
}

func TestBadChanges(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.max=20mbit")
		h.run("webber")
		for _, test := range []struct {
			name, fields string
			status       int
			words        []string
		}{
			{"wbe", "weight=1", 404, []string{"wbe", "did you mean web"}},
			{"zzz", "weight=1", 404, []string{"weir get"}},
			{"7765", "weight=1", 422, []string{"2 workloads", "web (776562000000)", "longer"}},
			{"web", "", 422, []string{"nothing to change"}},
			{"web", "min=20mbps", 422, []string{"min", "160mbit"}},
			{"web", "weight=0", 422, []string{"weight", "1 to 10000"}},
			{"web", "min=30mbit", 422, []string{"30 Mbit/s is above the max", "eth0"}},
			{"web", "min=1gbit max=none", 409, []string{"asked 1 Gbit/s", "free 100 Mbit/s"}},
		} {
			before, sets := h.state("eth0"), h.kernel.Sets("eth0")
			_, err := h.Set(t.Context(), test.name, change(test.fields), false)
			refused(t, err, test.status, test.words...)
			if h.state("eth0") != before || h.kernel.Sets("eth0") != sets {
				t.Errorf("%s %s: something was applied", test.name, test.fields)
			}
		}
		if got := h.workload("776562626572").Name; got != "webber" {
			t.Errorf("prefix of an id gives %s", got)
		}
		if got := h.workload("docker:web").Name; got != "web" {
			t.Errorf("key gives %s", got)
		}
	})
}

func TestDryRun(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		before, sets := h.state("eth0"), h.kernel.Sets("eth0")
		kept, _ := os.ReadFile(filepath.Join(h.dir, "state.json"))
		result, err := h.Set(t.Context(), "web", change("weight=3 min=20mbit"), true)
		if err != nil {
			t.Fatal(err)
		}
		want := api.Change{What: "eth0: class 1 (web): weight 1 -> 3, min none -> 20 Mbit/s", Why: "asked by weir set"}
		if !result.DryRun || len(result.Changes) != 1 || result.Changes[0] != want {
			t.Errorf("got %+v, want %+v", result.Changes, want)
		}
		if result.Workload.Policy.Min != "20mbit" {
			t.Errorf("workload %+v", result.Workload)
		}
		result, err = h.Attach(t.Context(), api.AttachRequest{Name: "vm", Netns: "vm", Policy: change("min=90mbit")}, true)
		if err != nil || len(result.Changes) != 1 || !strings.Contains(result.Changes[0].What, "add class 2 (vm)") {
			t.Errorf("attach: %+v, %v", result, err)
		}
		_, err = h.Set(t.Context(), "web", change("min=200mbit"), true)
		refused(t, err, 409)
		seconds(5)
		after, _ := os.ReadFile(filepath.Join(h.dir, "state.json"))
		if h.state("eth0") != before || h.kernel.Sets("eth0") != sets || string(after) != string(kept) {
			t.Error("a dry run changed something")
		}
	})
}

func TestAttach(t *testing.T) {
	inBubble(t, "attach: [{name: fixed, netns: fixed}]\nworkloads: {vm: {weight: 4}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		result, err := h.Attach(t.Context(), api.AttachRequest{Name: "vm", Device: "tap0", Policy: change("min=20mbit")}, false)
		if err != nil {
			t.Fatal(err)
		}
		if w := result.Workload; w.Kind != "device" || w.State != "active" || !slices.Equal(w.Devices, []string{"veth-vm"}) {
			t.Errorf("the answer shows %+v", w)
		}
		const want = `
			0 host weight 1
			1 fixed weight 1: veth-fixed
			2 web weight 1: vethweb
			3 vm weight 4 min 20 Mbit/s: veth-vm`
		h.expect("attached", "eth0", want)
		for _, test := range []struct {
			req    api.AttachRequest
			status int
			words  []string
		}{
			{api.AttachRequest{Name: "web", Netns: "x"}, 409, []string{"taken by docker:web"}},
			{api.AttachRequest{Name: "host", Netns: "x"}, 422, []string{"host itself"}},
			{api.AttachRequest{Name: "x y", Netns: "x"}, 422, []string{"letters"}},
			{api.AttachRequest{Name: "x"}, 422, []string{"exactly one"}},
			{api.AttachRequest{Name: "x", Netns: "a", Device: "b"}, 422, []string{"exactly one"}},
			{api.AttachRequest{Name: "x", Device: "eth0"}, 422, []string{"is a link"}},
			{api.AttachRequest{Name: "x", Netns: "missing"}, 422, []string{"does not exist"}},
			{api.AttachRequest{Name: "x", Netns: "x", Policy: change("min=90mbit")}, 409, []string{"free 80 Mbit/s"}},
			{api.AttachRequest{Name: "x", Netns: "x", Policy: change("weight=0")}, 422, []string{"weight"}},
		} {
			_, err := h.Attach(t.Context(), test.req, false)
			refused(t, err, test.status, test.words...)
		}
		seconds(2)
		h.expect("refusals leave nothing", "eth0", want)
		h.stop()
		h.start()
		h.expect("attached again after a restart", "eth0", want)
		_, err = h.Detach(t.Context(), "fixed", false)
		refused(t, err, 409, "attach:")
		_, err = h.Detach(t.Context(), "web", false)
		refused(t, err, 409)
		dry, err := h.Detach(t.Context(), "vm", true)
		if err != nil || len(dry.Changes) != 2 {
			t.Errorf("dry run: %+v, %v", dry, err)
		}
		h.expect("dry run", "eth0", want)
		if _, err = h.Detach(t.Context(), "vm", false); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("detached", "eth0", "0 host weight 1\n1 fixed weight 1: veth-fixed\n2 web weight 1: vethweb")
	})
}

func TestTwoLinks(t *testing.T) {
	inBubble(t, `
links:
  - {device: eth0, egress: 100mbit}
  - {device: eth1, egress: 10mbit}
`, func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.min=25%")
		h.run("b", "weir.min=20mbit")
		h.expect("a share is of each link", "eth0", `
			0 host weight 1
			1 a weight 1 min 25 Mbit/s: vetha
			2 b weight 1 min 20 Mbit/s: vethb`)
		h.expect("what one link cannot hold the other may", "eth1", `
			0 host weight 1
			1 a weight 1 min 2.5 Mbit/s: vetha
			2 b weight 1: vethb`)
		w := h.workload("b")
		if w.State != "refused" || !strings.Contains(w.Note, "link eth1") || strings.Contains(w.Note, "eth0") {
			t.Errorf("state %s, note %q", w.State, w.Note)
		}
		if len(w.Links) != 2 || w.Links[0].MinBps != 20e6 || w.Links[1].MinBps != 0 {
			t.Errorf("links %+v", w.Links)
		}
	})
}

// TestLinkIsNoPort: a device that is a link does not bring its own packets in.
func TestLinkIsNoPort(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			w := container("router")
			w.Devices = append(w.Devices, discover.Device{Name: "eth1", Ifindex: 3})
			list[w.Key] = w
		})
		h.expect("other link", "eth0", "0 host weight 1\n1 router weight 1: eth1 vethrouter")
		h.expect("the link itself", "eth1", "0 host weight 1\n1 router weight 1: vethrouter")
	})
}

// TestDeviceComesLate: a link waits for its device and takes it over again when
// it was replaced; the other link is not affected.
func TestDeviceComesLate(t *testing.T) {
	inBubble(t, "links: [{device: wwan0, egress: 10mbit}, {device: eth0, egress: 100mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		status := func() api.LinkStatus {
			s, err := h.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Links[0]
		}
		if l := status(); l.Backend != "none" || !strings.Contains(l.Error, "no such network device") {
			t.Errorf("link %+v", l)
		}
		const want = "0 host weight 1\n1 a weight 1: vetha"
		h.expect("the other link", "eth0", want)
		seconds(20)
		h.kernel.AddDevice("wwan0")
		seconds(9)
		h.expect("it came", "wwan0", want)
		h.kernel.RemoveDevice("wwan0")
		seconds(2)
		if l := status(); l.Backend != "none" {
			t.Errorf("link %+v", l)
		}
		h.kernel.AddDevice("wwan0")
		seconds(9)
		h.expect("it came again", "wwan0", want)
		if l := status(); l.Error != "" || l.Backend == "none" {
			t.Errorf("link %+v", l)
		}
		if n := strings.Count(h.log.String(), "waiting for the device"); n != 2 {
			t.Errorf("%d lines about waiting", n)
		}
	})
}

func TestNothingToSteer(t *testing.T) {
	for name, err := range map[string]error{
		"privilege": dataplane.ErrPrivilege, "foreign": dataplane.ErrForeignQdisc, "support": dataplane.ErrNoSupport,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, "")
				h.kernel.FailOpen(err)
				h.start()
				if got := <-h.done; !errors.Is(got, err) {
					t.Errorf("agent ended with %v, want %v", got, err)
				}
				if log := h.log.String(); log != "" {
					t.Errorf("the error is the one line, but the log says %s", log)
				}
				if _, err := h.Status(t.Context()); !errors.Is(err, errEnded) {
					t.Errorf("an agent that has ended answers %v", err)
				}
				h.cancel()
			})
		})
	}
}

// TestKernelFails: a change that the kernel does not take is not made, and what
// containers do meanwhile is made up for.
func TestKernelFails(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		h.kernel.FailSet("eth0", errors.New("no memory"))
		_, err := h.Set(t.Context(), "a", change("weight=3"), false)
		if err == nil || !strings.Contains(err.Error(), "no memory") {
			t.Errorf("got %v", err)
		}
		h.run("b")
		seconds(5)
		h.kernel.FailSet("eth0", nil)
		seconds(9)
		h.expect("made up for", "eth0", "0 host weight 1\n1 a weight 1: vetha\n2 b weight 1: vethb")
		if s, _ := h.Status(t.Context()); s.Links[0].Error != "" {
			t.Errorf("link %+v", s.Links[0])
		}
	})
}

// TestHeal: what somebody else did to the kernel is undone.
func TestHeal(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		backend, err := h.kernel.Open("eth0")
		if err != nil {
			t.Fatal(err)
		}
		if err := backend.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.expect("gone", "eth0", "")
		seconds(31)
		h.expect("healed", "eth0", "0 host weight 1\n1 a weight 1: vetha")
	})
}

func TestReload(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		var next string
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.start()
		h.run("a")
		before := h.state("eth0")
		next = "links:\n  - {device: eth0, egress: 50mbps}\n    egres: 1\n"
		if err := h.Reload(t.Context(), "test"); err == nil {
			t.Error("bad file accepted")
		}
		next = "group: x\n"
		if err := h.Reload(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), "no link") {
			t.Errorf("file without links: %v", err)
		}
		h.expect("the old one in force", "eth0", before)
		if s, _ := h.Status(t.Context()); !strings.Contains(s.ConfigError, "weir.yaml") {
			t.Errorf("status says %q", s.ConfigError)
		}
		next = `
links: [{device: eth0, egress: 50mbit}]
workloads: {a: {min: 20%}}
attach: [{name: vm, device: tap0}]
socket: /elsewhere
`
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		h.expect("the new one in force", "eth0", "0 host weight 1\n1 a weight 1 min 10 Mbit/s: vetha\n2 vm weight 1: veth-vm")
		h.expect("given back", "eth1", "")
		s, _ := h.Status(t.Context())
		if s.ConfigError != "" || len(s.Links) != 1 || s.Links[0].CapacityBps != 50e6 || h.kernel.OpenBackends("eth1") != 0 {
			t.Errorf("status %+v", s)
		}
		if !strings.Contains(h.log.String(), "settings=socket") {
			t.Error("the log does not say what needs a restart")
		}
		next = "links: [{device: eth1, egress: 10mbit}]\n"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("taken over", "eth1", "0 host weight 1\n1 a weight 1: vetha")
	})
}

func TestSubscribe(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		seconds(10)
		ctx, cancel := context.WithCancel(t.Context())
		stream := h.Subscribe(ctx)
		first := <-stream
		if n := len(workloadIn(first, "a").Links[0].HistoryBps); n < 10 {
			t.Errorf("the first sample has %d seconds of history", n)
		}
		for range 3 {
			begin := time.Now()
			next := <-stream
			if d := time.Since(begin); d <= 0 || d > time.Second || workloadIn(next, "a").Links[0].HistoryBps != nil {
				t.Errorf("sample after %v", d)
			}
		}
		seconds(30) // without reading
		oldest := <-stream
		if age := time.Since(oldest.At); age > queue*time.Second {
			t.Errorf("a slow reader gets what is %v old", age)
		}
		cancel()
		synctest.Wait()
		for range stream { // ends, since the channel is closed
		}
		open := h.Subscribe(t.Context())
		h.stop()
		for range open {
		}
		h.start()
	})
}

func workloadIn(s api.Sample, name string) api.Workload {
	i := slices.IndexFunc(s.Workloads, func(w api.Workload) bool { return w.Name == name })
	return s.Workloads[i]
}

func TestRates(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.weight=3", "weir.min=10mbit")
		h.run("b")
		seconds(1)
		for range 3 {
			h.kernel.Send("eth0", 1, fake.Traffic{Bytes: 9e6, Backlog: 20, Drops: 5})
			h.kernel.Send("eth0", 2, fake.Traffic{Bytes: 1e6})
			seconds(1)
		}
		a, b := h.workload("a").Links[0], h.workload("b").Links[0]
		if a.RateBps != 72e6 || a.Share != 0.72 || a.IdealBps != 92e6 || a.DropsPerSecond != 5 || a.BacklogPackets != 20 {
			t.Errorf("a: %+v", a)
		}
		if b.RateBps != 8e6 || b.IdealBps != 8e6 || b.OfferedBps != 8e6 {
			t.Errorf("b: %+v", b)
		}
		s, _ := h.Status(t.Context())
		if s.Links[0].RateBps != 80e6 {
			t.Errorf("link %+v", s.Links[0])
		}
		e, err := h.Explain(t.Context(), "a")
		if err != nil || e.Links[0].Binds != "share" || e.Links[0].Others[0].Name != "b" {
			t.Errorf("explanation %+v, %v", e, err)
		}
	})
}

// TestChurn: 200 containers come and go; nothing of them stays.
func TestChurn(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("survivor", "weir.min=10mbit")
		want := h.state("eth0")
		for i := range 200 {
			name := "churn" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			h.run(name)
			if i%3 == 0 {
				seconds(1)
			}
			h.kill(name)
		}
		h.expect("after the churn", "eth0", want)
		seconds(1)
		if n := h.kernel.OpenBackends("eth0"); n != 1 {
			t.Errorf("%d backends are open", n)
		}
		if list, _ := h.Workloads(t.Context()); len(list) != 2 {
			t.Errorf("%d workloads", len(list))
		}
		if n := len(h.links[0].history.rings); n > 2 {
			t.Errorf("history of %d classes", n)
		}
	})
}

// TestWaitingAndUnsteered: a class is there before the network is; who uses the
// host's network has none.
func TestWaitingAndUnsteered(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			late := container("late")
			late.Devices = nil
			hosted := container("hosted", "weir.min=60mbit")
			hosted.Devices, hosted.Note = nil, "uses the host's network"
			list[late.Key], list[hosted.Key] = late, hosted
		})
		h.expect("class without port", "eth0", "0 host weight 1\n1 late weight 1")
		if w := h.workload("late"); w.State != "waiting" {
			t.Errorf("state %s", w.State)
		}
		w := h.workload("hosted")
		if w.State != "unsteered" || w.Note != "uses the host's network" || len(w.Links) != 0 {
			t.Errorf("%+v", w)
		}
		seconds(2)
		e, err := h.Explain(t.Context(), "hosted")
		if err != nil || !strings.Contains(e.Links[0].Text[0], "not steered") {
			t.Errorf("%+v, %v", e, err)
		}
		h.run("late")
		h.expect("network is up", "eth0", "0 host weight 1\n1 late weight 1: vethlate")
	})
}

// BenchmarkManyWorkloads is one container that comes and goes among 4,000, and
// a sample of all.
func BenchmarkManyWorkloads(b *testing.B) {
	w := world{config: config.Config{Links: []config.Link{config.DefaultLink("eth0", 1e9)}}}
	for i := range 4000 {
		c := container(fmt.Sprintf("c%04d", i), "weir.weight=3")
		c.Devices[0].Ifindex = i
		w.found = append(w.found, c)
	}
	d := decide(w)
	w.number = d.number
	b.Run("decide", func(b *testing.B) {
		for b.Loop() {
			decide(w)
		}
	})
	b.Run("sample", func(b *testing.B) {
		l := &link{config: w.config.Links[0]}
		l.wants(d.plans["eth0"])
		a := &Agent{world: w, decided: d, links: []*link{l}}
		for b.Loop() {
			l.now = divide(l.want, nil)
			a.sample(time.Time{}, false)
		}
	})
}
