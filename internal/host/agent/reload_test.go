// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/core/workload"
)

// TestStartsWithoutALink: an agent whose file says links: [] steers nothing, says so, and takes the
// links that the file names later; links: [] gives them back. A file that says nothing of links is
// a mistake at all times.
func TestStartsWithoutALink(t *testing.T) {
	inBubble(t, "links: []", func(t *testing.T, h *host) {
		var next string
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.start()
		h.run("a")
		h.expect("nothing is steered", "eth0", "")
		s, err := h.Status(t.Context())
		if problems := said(s.Problems); err != nil || len(s.Problems) != 1 || !strings.Contains(problems, "no link is steered; name one under links:") {
			t.Errorf("%v, problems %q", err, problems)
		}
		next = "links: [{device: eth0, egress: 95mbit}]"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		seconds(1)
		h.expect("the link is steered", "eth0", "0 host weight 1\n1 a weight 1: vetha")
		next = "group: x"
		if err := h.Reload(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), "write links: []") {
			t.Errorf("a file without links: %v", err)
		}
		next = "links: []"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		h.expect("given back", "eth0", "")
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
		if s, _ := h.Status(t.Context()); s.Reloads.OK != 0 || s.Reloads.Failed != 2 || !s.Reloads.LastOK.Equal(s.Started) {
			t.Errorf("after two bad files the reloads are %+v, started %v", s.Reloads, s.Started)
		}
		seconds(1)
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
		if s.Reloads.OK != 1 || s.Reloads.Failed != 2 || !s.Reloads.LastOK.After(s.Started) {
			t.Errorf("after a good file the reloads are %+v, started %v", s.Reloads, s.Started)
		}
		if s.ConfigError != "" || len(s.Links) != 1 || s.Links[0].CapacityBps != 50e6 || h.kernel.OpenBackends("eth1") != 0 {
			t.Errorf("status %+v", s)
		}
		if !strings.Contains(h.log.String(), "settings=socket") {
			t.Error("the log does not say what needs a restart")
		}
		due := func(when, want string) {
			t.Helper()
			seconds(2)
			s, _ := h.Status(t.Context())
			said := strings.Contains(said(s.Problems), "weir.yaml: "+want+": in force from the next start of the agent on; systemctl restart weir")
			if got := strings.Join(s.RestartDue, ", "); got != want || said != (want != "") {
				t.Errorf("%s: %q waits for a restart, want %q; problems %q", when, got, want, s.Problems)
			}
			if told := h.told(); strings.HasSuffix(told, "restart-due begin weir.yaml") != (want != "") {
				t.Errorf("%s: told %s", when, told)
			}
		}
		due("after socket", "socket")
		good := next
		next += "group: ops\n"
		h.mustReload()
		due("after a second setting", "group, socket")
		next = strings.ReplaceAll(good, "socket: /elsewhere\n", "")
		h.mustReload()
		due("as at the start", "")
		start := next
		next += "profile: small\n"
		h.mustReload()
		due("after profile, which stays what it is", "profile")
		next = start
		h.mustReload()
		due("as at the start again", "")
		next = "links: [{device: eth1, egress: 10mbit}]\n"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("taken over", "eth1", "0 host weight 1\n1 a weight 1: vetha")
	})
}

// A device that does not exist does not take a link's place: the file is refused. One
// that is added is waited for, and the status says so.
func TestReloadWithAMistypedDevice(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		var next string
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.start()
		h.run("a", "weir.min=20mbit")
		before := h.state("eth0")
		next = "links: [{device: eth1, egress: 1mbit}, {device: eht0, egress: 100mbit}]"
		err := h.Reload(t.Context(), "test")
		const want = `weir.yaml: links[1].device: "eht0": no such network device, and link eth0 would be given back; did you mean eth0?`
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		h.expect("the link is kept", "eth0", before)
		h.expect("nothing of the file counts", "eth1", "")
		if s, _ := h.Status(t.Context()); s.ConfigError != want || h.workload("a").State != workload.StateActive {
			t.Errorf("status %q, a is %s", s.ConfigError, h.workload("a").State)
		}
		next = "links: [{device: eth0, egress: 100mbit}, {device: tun9, egress: 100mbit}]"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatalf("a device that is to come: %v", err)
		}
		seconds(2)
		s, _ := h.Status(t.Context())
		if problems := s.Problems; len(problems) != 1 || !strings.Contains(problems[0].Text, "link tun9: not steered") {
			t.Errorf("problems %q", problems)
		}
		if a := h.workload("a"); a.State != workload.StateNotHeld || !strings.Contains(a.Note, "link tun9 is not steered") {
			t.Errorf("a is %s, %s", a.State, a.Note)
		}
		h.kernel.AddDevice("tun9")
		seconds(60)
		if a := h.workload("a"); a.State != workload.StateActive || h.state("tun9") == "" {
			t.Errorf("a is %s, %s", a.State, a.Note)
		}
		next = "links: [{device: eth1, egress: 1mbit}]" // which exists: as meant
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Error(err)
		}
	})
}

// mustReload has the agent read its file, which has to be right.
func (h *host) mustReload() {
	h.t.Helper()
	if err := h.Reload(h.t.Context(), "test"); err != nil {
		h.t.Fatal(err)
	}
}

// TestReloadOfWhatIsSet: the agent says which changes of the file do nothing, since the same was
// set at run time, and the status names what is set.
func TestReloadOfWhatIsSet(t *testing.T) {
	const links = "links: [{device: eth0, egress: 100mbit}]\ngroups: {office: {weight: 2}}\n"
	inBubble(t, links+"workloads: {web: {max: 10mbit}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.set("web", "max=20mbit weight=3")
		h.setGroup("office", "weight=5")
		h.reload(links + "workloads: {web: {max: 10mbit, min: 5mbit}}")
		if strings.Contains(h.log.String(), "set at run time") {
			t.Errorf("the file changes nothing that was set, and the log has\n%s", h.log)
		}
		h.reload(strings.Replace(links, "weight: 2", "weight: 3", 1) + "workloads: {web: {max: 30mbit, min: 5mbit}}")
		if !strings.Contains(h.log.String(), `fields="web: max; group office: weight"`) {
			t.Errorf("the log has\n%s", h.log)
		}
		h.kill("web")
		seconds(60)
		s, err := h.Status(t.Context())
		if got := strings.Join(s.SetAtRunTime, ", "); err != nil || got != "docker:web, group office" {
			t.Errorf("set: %s, %v", got, err)
		}
	})
}
