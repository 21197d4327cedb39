// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/policy"
)

// traces returns all state on the bed's host that Weir changes, as text, read past Weir:
// qdiscs, programs and filters of the devices, offload limits, pins, files.
func (b *bed) traces() string {
	b.t.Helper()
	var text strings.Builder
	text.WriteString(b.host.run("tc -d qdisc show"))
	spaces := append([]*space{b.host, b.srv}, b.boxes...)
	for _, s := range spaces {
		links, err := s.LinkList()
		s.must("list devices", err)
		for _, l := range links {
			a := l.Attrs()
			fmt.Fprintf(&text, "%s %s gso_max_size %d gso_ipv4_max_size %d\n", s.name, a.Name, a.GSOMaxSize, a.GSOIPv4MaxSize)
			if s != b.host {
				continue
			}
			for way, hook := range map[string]ebpf.AttachType{"ingress": ebpf.AttachTCXIngress, "egress": ebpf.AttachTCXEgress} {
				fmt.Fprintf(&text, "%s %s: %d tcx programs, filters %q\n", a.Name, way, b.tcxPrograms(a.Index, hook),
					b.host.run("tc filter show dev "+a.Name+" "+way))
			}
		}
	}
	fmt.Fprintf(&text, "pins %v\n", inventory(b.t, nil).Pins)
	entries, _ := os.ReadDir(b.stateDir()) // before the first agent there is none
	for _, entry := range entries {
		// What was set at run time is kept, and so are events, usage, the record of who
		// changed what, and the copy of weir.yaml for an agent that finds a damaged one.
		kept := []string{"state.json", "events.json", "usage", "weir.yaml.in-force"}
		if !slices.Contains(kept, entry.Name()) && !strings.HasPrefix(entry.Name(), "audit.log") {
			fmt.Fprintf(&text, "state %s\n", entry.Name())
		}
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	slices.Sort(lines) // the kernel's order is that of the devices' indices
	return strings.Join(lines, "\n")
}

// tcxPrograms returns how many programs are at a hook of a device.
func (b *bed) tcxPrograms(ifindex int, hook ebpf.AttachType) (programs int) {
	b.t.Helper()
	err := b.host.do(func() error {
		result, err := link.QueryPrograms(link.QueryOptions{Target: ifindex, Attach: hook})
		if err == nil {
			programs = len(result.Programs)
		}
		return err
	})
	if err != nil {
		b.t.Fatalf("list the programs of device %d: %v", ifindex, err)
	}
	return programs
}

// asBefore fails the test if the host's traces are not what they were.
func (b *bed) asBefore(what, before string) {
	b.t.Helper()
	b.unchanged(what, before, b.traces())
}

// unchanged fails the test if a text is not what it was, and shows the lines.
func (b *bed) unchanged(what, before, now string) {
	b.t.Helper()
	if before == now {
		return
	}
	was, is := strings.Split(before, "\n"), strings.Split(now, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			b.t.Errorf("%s: gone: %s", what, line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			b.t.Errorf("%s: new: %s", what, line)
		}
	}
}

// oneLine checks that a command was refused with the code and one line that holds
// all of the words.
func (b *bed) oneLine(what string, got answer, code int, words ...string) {
	b.t.Helper()
	var said []string
	for line := range strings.Lines(got.stderr) {
		if !strings.HasPrefix(line, "time=") { // the agent's log
			said = append(said, line)
		}
	}
	line := strings.TrimSuffix(strings.Join(said, ""), "\n")
	b.t.Logf("%s: %d %s", what, got.code, line)
	if got.code != code {
		b.t.Errorf("%s: exit code %d, want %d: %s", what, got.code, code, got.stderr)
	}
	if strings.Contains(line, "\n") || !strings.HasPrefix(line, "weir: ") {
		b.t.Errorf("%s: is not one line of weir's:\n%s", what, got.stderr)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			b.t.Errorf("%s: %q is not in %q", what, word, line)
		}
	}
}

// Weir replaces a qdisc that a user set only if it is told to. After weir cleanup the
// host is as it was before: every former qdisc is back, and nothing else is there.
func TestHostIsLeftAsFound(t *testing.T) {
	for _, test := range []struct {
		name, qdisc string // as tc takes it, "" = the kernel's default
		foreign     bool
	}{
		{"the kernel's default", "", false},
		{"a pfifo set on purpose", "handle 5: pfifo limit 77", true},
		{"a tbf set on purpose", "handle 8001: tbf rate 50mbit burst 20kb latency 30ms", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t, 2, 1)
			b.configure("workloads:\n  w1: {weight: 2, min: 10%}\n")
			if test.qdisc != "" {
				b.host.run("tc qdisc replace dev up0 root " + test.qdisc)
			}
			before := b.traces()
			var flags []string
			if test.foreign {
				kind := strings.Fields(test.qdisc)[2]
				b.oneLine("agent", b.cli("agent", "--config", b.configFile()), 1, "up0", kind, "--force")
				b.asBefore("refusal", before)
				flags = []string{"--link", "up0", "--force"}
			}
			a := b.start(flags...)
			b.steered(a)
			if b.traces() == before {
				t.Error("the agent steers, but the host is as before")
			}
			b.oneLine("cleanup beside an agent", b.cli("cleanup", "--config", b.configFile()), 1, "agent runs")
			stream := b.udp(0, 1, 0.3)
			await(t, 5*time.Second, "packets pass", func() error {
				if c := class(b.counters(0), a.workload("w1").Class); c.SentPackets < 10 {
					return fmt.Errorf("%+v", c)
				}
				return nil
			})
			a.stop()
			t.Log(strings.TrimSpace(b.weir("cleanup", "--config", b.configFile())))
			b.asBefore("cleanup", before)
			sent, lost := b.settle(stream)
			t.Logf("of %d packets, %d were lost to the former qdisc and on the way to it", sent, lost)
			t.Log(strings.TrimSpace(b.weir("cleanup", "--config", b.configFile())))
			b.asBefore("second cleanup", before)
		})
	}
}

// Cleanup works after a SIGKILL, too, and without a record of the devices that were
// steered.
func TestCleanupAfterKill(t *testing.T) {
	b := newBed(t, 2, 2)
	b.configure("")
	before := b.traces()
	a := b.start()
	b.steered(a)
	a.kill()
	b.weir("cleanup", "--dry-run", "--config", b.configFile())
	if b.traces() == before {
		t.Error("a dry run has cleaned up")
	}
	t.Log(strings.TrimSpace(b.weir("cleanup", "--config", b.configFile())))
	b.asBefore("cleanup", before)
}

// Run-time settings outlive a cleanup; an agent that starts after one begins anew
// in the kernel.
func TestAgentAfterCleanup(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	b.weir("set", "w1", "--weight", "7", "--max", "40%")
	a.stop()
	b.weir("cleanup", "--config", b.configFile())
	a = b.start()
	b.steered(a)
	if p := a.workload("w1").Policy; p.Weight != 7 || p.Max.Compact() != "40%" {
		t.Errorf("policy after cleanup and start: %+v", p)
	}
	b.flood(0, 1, 0.7)
	b.warmUp()
	b.same("held by the new agent", b.rates(0, time.Second), b.ideal(policy.Policy{Weight: 7, Max: policy.Amount{Percent: 40}}), unchanged)
	if _, err := a.Status(context.Background()); err != nil {
		t.Error(err)
	}
}
