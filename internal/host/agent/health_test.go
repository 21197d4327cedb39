// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/core/plan"
	"weir/internal/host/discover"
)

// healthOf returns what an agent says is wrong, as KIND SEVERITY SUBJECT: by its status, by its
// events without the notices, by the counts of its metrics, by the stream.
func (h *host) healthOf() (status, events, counts, stream string) {
	h.t.Helper()
	s, err := h.Status(context.Background())
	all, failed := h.Events(context.Background(), api.EventQuery{})
	if err = errors.Join(err, failed); err != nil {
		h.t.Fatal(err)
	}
	lines := func(list []event.Fault) string {
		var text []string
		for _, p := range list {
			if p.Remedy == "" {
				h.t.Errorf("no remedy: %+v", p)
			}
			text = append(text, p.Kind+" "+p.Severity+" "+p.Subject.Name)
		}
		slices.Sort(text)
		return strings.Join(text, ", ")
	}
	var open []event.Fault
	var kinds []string
	for _, e := range all.Open {
		if e.Severity != event.Notice {
			open = append(open, event.Fault{Kind: e.Kind, Severity: e.Severity, Subject: e.Subject, Remedy: e.Remedy})
		}
	}
	for _, k := range event.Kinds {
		if k.Severity != event.Notice && s.Events.Open[k.Name] > 0 {
			kinds = append(kinds, k.Name)
		}
	}
	slices.Sort(kinds)
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	return lines(s.Problems), lines(open), strings.Join(kinds, ", "), lines((<-h.Subscribe(ctx)).Problems)
}

// TestHealth: within 2 s of each fault all that an agent says of its health agrees and has a
// remedy, and within 2 s of its end it says that all is well.
func TestHealth(t *testing.T) {
	observe := func(kind, about, name string) func(h *host, on bool) {
		return func(h *host, on bool) {
			_ = h.tell(h.t.Context(), func() {
				h.observed = func(s *event.Sight) {
					if on {
						s.Report(kind, event.Condition{Subject: event.Subject{Type: about, Name: name}, Text: "is wrong", Remedy: "mend it"})
					}
				}
			})
		}
	}
	disk := func(path, note string) func(h *host, on bool) {
		return func(h *host, on bool) {
			_ = h.tell(h.t.Context(), func() {
				h.unwritable = nil
				if on {
					h.unwritable = []api.Storage{{Path: path, Lost: "usage is", Note: note}}
				}
			})
		}
	}
	down := func(text string) func(h *host, on bool) {
		return func(h *host, on bool) {
			_ = h.tell(h.t.Context(), func() { h.why = map[bool]string{true: text}[on] })
		}
	}
	const good = "links: [{device: eth0, egress: 100mbit, ingress: 100mbit}]"
	file := func(text string) func(h *host, on bool) {
		return func(h *host, on bool) {
			h.opts.Load = func() (config.Config, error) {
				return config.Parse("weir.yaml", []byte(map[bool]string{true: text, false: good}[on]))
			}
			_ = h.Reload(h.t.Context(), "test") // a wrong one fails
		}
	}
	for _, fault := range []struct {
		name string
		want string
		set  func(h *host, on bool)
	}{
		{"state folder full", "unwritable error /var/lib/weir", disk("/var/lib/weir", "the disk is full")},
		{"state folder read-only", "unwritable error /var/lib/weir", disk("/var/lib/weir", "the file system is mounted read-only")},
		{"audit log full", "unwritable error /var/log/weir", disk("/var/log/weir", "no inode is free")},
		{"link down", "link-down error eth0", down("the device is down; ip link set eth0 up")},
		{"no carrier", "link-down error eth0", down("the device has no carrier; look at the cable")},
		{"device gone", "link-gone error eth0", func(h *host, on bool) {
			if on {
				h.kernel.RemoveDevice("eth0")
				return
			}
			h.kernel.AddDevice("eth0")
			seconds(8) // until it is tried again
		}},
		{"foreign qdisc", "backend-lost error eth0", func(h *host, on bool) {
			var err error
			if on {
				err = errors.New("another program has set fq_codel; force: true replaces it")
			}
			h.kernel.FailSet("eth0", err)
			h.kernel.Disturb("eth0", "the root qdisc is fq_codel")
			if !on {
				seconds(8)
			}
		}},
		{"kernel that cannot be read", "backend-lost error eth0", func(h *host, on bool) {
			h.kernel.FailMissing("eth0", map[bool]error{true: errors.New("open the pinned link: read-only file system")}[on])
			if !on {
				seconds(8)
			}
		}},
		{"source mute", "source-lost error docker", func(h *host, on bool) {
			h.docker.change(func(map[string]discover.Workload) { h.docker.refuses = on })
			if !on {
				seconds(8) // until it is asked again
			}
		}},
		{"file with a mistake", "config-wrong error weir.yaml", file("links: [{device: eth0, egress: 50mbps}]")},
		{"file without links", "config-wrong error weir.yaml", file("group: x")},
		{"file of zero bytes", "config-wrong error weir.yaml", file(strings.Repeat("\x00", 3000))},
		{"prefixes missing", "config-wrong error weir.yaml", file("links: [{device: eth0, egress: 100mbit, zones: {wan: {egress: 10mbit, prefixes_file: /nowhere}}}]")},
		{"no link", "no-link warning weir.yaml", file("links: []")},
		{"restart due", "restart-due warning weir.yaml", file(good + "\nsocket: /elsewhere")},
		{"address of the page", "not-served warning 10.0.0.1:7480", observe(event.NotServed, event.Address, "10.0.0.1:7480")},
		{"certificate ended", "certificate warning /etc/weir/web.pem", observe(event.BadCertificate, event.Certificate, "/etc/weir/web.pem")},
		{"manager out of reach", "manager-lost warning m:7470", observe(event.ManagerLost, event.Manager, "m:7470")},
		{"clock not synchronised", "clock warning clock", observe(event.ClockWrong, event.Clock, "clock")},
		{"min refused", "refused warning web", func(h *host, on bool) {
			if on {
				h.run("a", "weir.min=60mbit")
				h.run("web", "weir.min=60mbit")
				return
			}
			h.kill("web")
		}},
		{"setting that the fallback does not hold", "not-held warning eth0", func(h *host, on bool) {
			h.stop()
			h.config.Links[0].Scheduler = map[bool]string{true: plan.SchedulerQcon, false: plan.SchedulerFair}[on]
			h.kernel.Lack(fallback)
			h.start()
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			inBubble(t, good, func(t *testing.T, h *host) {
				h.config.Path = "weir.yaml"
				h.down = func(string) string { return h.why }
				h.start()
				seconds(1)
				expect := func(when, want string) {
					t.Helper()
					time.Sleep(2*time.Second + time.Millisecond) // past the tick at 2 s
					kinds := ""
					if want != "" {
						kinds, _, _ = strings.Cut(want, " ")
					}
					if status, events, counts, stream := h.healthOf(); status != want || events != want || counts != kinds || stream != want {
						t.Errorf("%s: status %q, events %q, counts %q, stream %q; want %q\n%s", when, status, events, counts, stream, want, h.log)
					}
				}
				expect("before", "")
				fault.set(h, true)
				expect("while it lasts", fault.want)
				fault.set(h, false)
				expect("afterwards", "")
			})
		})
	}
}
