// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/api"
)

// configuration is the agent's.
const configuration = `links: [{device: %s, egress: 2mbit%s}]
attach: [{name: three, netns: three}, {name: one, netns: one}, %s]
workloads: {three: {weight: 3}}
docker: {enabled: %t}
%s`

// rightWithin bounds how long what Weir set may be other than it was after a manager's work.
const rightWithin = 2 * time.Second

// agent is Weir's agent as its unit runs it.
type agent struct {
	h *host
	m manager
	*api.Client
	since string // where its log begins, as journalctl takes it
	heard int    // lines that said has returned
}

var install = sync.OnceValue(func() error {
	h := &host{}
	_, err := h.try(`install -D /usr/local/bin/weir /usr/bin/weir &&
		install -D --mode=644 deploy/weir.service /usr/lib/systemd/system/weir.service &&
		install -D --mode=644 deploy/weir.sysusers /usr/lib/sysusers.d/weir.conf && systemd-sysusers && systemctl daemon-reload`)
	return err
})

// startAgent starts the agent and waits until the link is divided.
func (h *host) startAgent(m manager) *agent {
	h.t.Helper()
	if err := install(); err != nil {
		h.t.Fatal(err)
	}
	force := ""
	if m.force {
		force = ", force: true"
	}
	h.write("/etc/weir/weir.yaml", fmt.Sprintf(configuration, h.link, force, m.attach, m.docker, m.config))
	a := &agent{h: h, m: m, Client: api.NewClient("/run/weir/weir.sock"), since: strings.TrimSpace(h.run("date +%s"))}
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Log(h.run("journalctl --no-pager --output cat --unit weir --since @" + a.since))
		}
		h.run("systemctl stop weir; weir cleanup >/dev/null 2>&1; rm -rf /var/lib/weir")
	})
	h.run("systemctl start weir")
	h.await(patience, "the agent divides the link", a.right)
	a.said()
	return a
}

// right returns what is not right in the agent's status or in the kernel.
func (a *agent) right() error {
	status, err := a.Status(context.Background())
	if err != nil {
		return err
	}
	problems := slices.Collect(func(yield func(string) bool) {
		for _, p := range status.Problems {
			if !yield(p.Text) {
				return
			}
		}
	})
	switch root := a.h.root(); {
	case len(problems) > 0:
		return errors.New(strings.Join(problems, "; "))
	case len(status.Links) != 1 || status.Links[0].Error != "" || status.Links[0].Backend != "bpf":
		return fmt.Errorf("%+v", status.Links)
	case !strings.HasPrefix(root, "qdisc weir"):
		return fmt.Errorf("the root qdisc is %q", root)
	}
	for name, device := range a.m.ports() {
		w, err := a.Workload(context.Background(), name)
		if err != nil {
			return err
		}
		if w.State != "active" || len(w.Devices) != 1 || device != "" && w.Devices[0] != device {
			return fmt.Errorf("%s is %s with devices %v", name, w.State, w.Devices)
		}
	}
	return nil
}

// ports returns the device of each workload, "" = of any name.
func (m manager) ports() map[string]string {
	all := map[string]string{}
	for name := range weights {
		all[name] = "up-" + name
	}
	if m.guest != "" {
		all[m.guest] = ""
	}
	return all
}

// marked returns which workload's port does not mark.
func (a *agent) marked() error {
	for name := range a.m.ports() {
		w, err := a.Workload(context.Background(), name)
		if err != nil {
			return err
		}
		out, err := a.h.try("bpftool net show dev " + w.Devices[0])
		if err == nil && !strings.Contains(out, "weir_mark_port") {
			err = fmt.Errorf("%s is not marked: %s", name, out)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// said returns the new lines of the agent's log that are warnings or worse.
func (a *agent) said() (lines []string) {
	a.h.t.Helper()
	for line := range strings.Lines(a.h.run("journalctl --no-pager --output cat --unit weir --since @" + a.since)) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	a.heard, lines = len(lines), lines[a.heard:]
	return lines
}

// cleanUp stops the agent and gives the link back.
func (a *agent) cleanUp() {
	a.h.t.Helper()
	a.h.run("systemctl stop weir")
	if out, err := a.h.try("weir cleanup"); err != nil {
		a.h.t.Error(out, err)
	}
	if left, _ := os.ReadDir("/sys/fs/bpf/weir"); len(left) > 0 {
		a.h.t.Errorf("after cleanup there is %v", left)
	}
}
