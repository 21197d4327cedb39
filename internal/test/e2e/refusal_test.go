// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/api"
)

// The users that refusals are about. Neither exists by name: that must not
// matter.
var (
	outsider = &syscall.Credential{Uid: 64001, Gid: 64001}
	member   = &syscall.Credential{Uid: 64002, Gid: 64002, Groups: []uint32{groupID}}
)

// promises returns all promises of an agent as text, which a refused request must not
// change. Rates and counters are left out.
func (b *bed) promises() string {
	b.t.Helper()
	var list []api.Workload
	if err := json.Unmarshal([]byte(b.weir("get", "-o", "json")), &list); err != nil {
		b.t.Fatal(err)
	}
	var text strings.Builder
	for _, w := range list {
		fmt.Fprintf(&text, "%s %s class %d %+v %v %s %q %v\n", w.Name, w.Key, w.Class, w.Policy, w.Origin, w.State, w.Note, w.Devices)
	}
	kept, err := os.ReadFile(filepath.Join(b.stateDir(), "state.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(b.host.run("tc class show dev up0")) {
		// The tc fallback moves the rates by itself, from moment to moment.
		class, _, _ := strings.Cut(line, " prio ")
		fmt.Fprintln(&text, class)
	}
	return text.String() + string(kept) + b.traces()
}

// Every refusal is one line that names the mistake, its value and the remedy, has an exit
// code for scripts, and changes nothing.
func TestRefusals(t *testing.T) {
	b := newBed(t, 3, 1)
	b.configure("workloads:\n  w1: {min: 20%}\n")
	a := b.start()
	b.steered(a)
	tenth := func(n int) string { return fmt.Sprintf("%dkbit", n*int(b.capacity/1e4)) }
	free := *capacity * 8 / 10
	t.Cleanup(func() { os.RemoveAll("/tmp/no") })
	for _, test := range []struct {
		name  string
		who   *syscall.Credential
		args  string
		code  int
		words []string
	}{
		{"wrong unit", nil, "set w2 --min 20mbps", 2, []string{"min", "20mbps", "bytes", "mbit"}},
		{"no rate at all", nil, "set w2 --max fast", 2, []string{"max", "fast", "20mbit"}},
		{"weight of 0", nil, "set w2 --weight 0", 2, []string{"weight", "0", "1", "10000"}},
		{"min above max", nil, "set w2 --min 40% --max 30%", 2, []string{"min", "40 %", "30 %", "lower min or raise max"}},
		{"min above the max in force", nil, "set w1 --max 10%", 2, []string{"min", "20 %", "10 %"}},
		{"mins above the capacity", nil, "set w2 --min " + tenth(9), 5,
			[]string{"min", "asked", "reserved", "free", "up0", fmt.Sprintf("%d Mbit/s", free)}},
		{"attach with a min above the capacity", nil, "attach w4 --netns srv --min " + tenth(9), 5, []string{"min", "reserved"}},
		{"unknown workload", nil, "set w11 --weight 2", 6, []string{"w11", "w1"}},
		{"unknown namespace", nil, "attach w9 --netns nosuch", 2, []string{"nosuch", "w1"}},
		{"unknown device", nil, "attach w9 --device nosuch0", 2, []string{"nosuch0", "w1"}},
		{"the link itself as a workload", nil, "attach w9 --device up0", 2, []string{"up0", "link"}},
		{"name taken", nil, "attach w1 --netns srv", 5, []string{"w1", "taken"}},
		{"detach what the file attaches", nil, "detach w1", 5, []string{"w1", b.configFile()}},
		{"unknown flag", nil, "set w1 --wieght 2", 2, []string{"--wieght", "--weight"}},
		{"unknown command", nil, "sett w1", 2, []string{"sett", "did you mean", "set"}},
		{"nothing to change", nil, "set w1", 2, []string{"--weight"}},
		{"second agent", nil, "agent --config " + b.configFile(), 1, []string{b.socket(), "another agent", "stop it"}},
		{"cleanup of an unknown device", nil, "cleanup --force --link nosuch0", 2, []string{"nosuch0"}},
		{"user outside the group looks", outsider, "get", 4, []string{b.socket(), groupName, "usermod"}},
		{"user outside the group changes", outsider, "set w1 --weight 2", 4, []string{groupName, "usermod"}},
		{"agent without privilege", outsider, "agent --link up0=10mbit --docker=false --socket /tmp/no/weir.sock --state-dir /tmp/no/state", 4, []string{"root"}},
		{"cleanup without privilege", member, "cleanup --force --config " + b.configFile(), 4, []string{"root"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := b.with(t)
			before := b.promises()
			b.oneLine("weir "+test.args, b.cliAs(test.who, strings.Fields(test.args)...), test.code, test.words...)
			b.unchanged("after the refusal", before, b.promises())
		})
	}
	if got := b.cliAs(member, "set", "w3", "--weight", "2"); got.code != 0 {
		t.Errorf("a member of the group is refused: %s", got.stderr)
	}
}

// with returns the bed in a subtest.
func (b *bed) with(t *testing.T) *bed {
	sub := *b
	sub.t = t
	return &sub
}

// A configuration with a mistake is refused at the start with its place, and an
// agent that runs keeps the one before.
func TestBadConfiguration(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("workloads:\n  w1: {weight: 2}\n")
	good, err := os.ReadFile(b.configFile())
	if err != nil {
		t.Fatal(err)
	}
	before := b.traces()
	lines := strings.Count(string(good), "\n")
	for _, test := range []struct {
		name, more string
		code       int
		words      []string
	}{
		{"typing error", "  w2: {wieght: 3}\n", 2, []string{fmt.Sprintf("%s:%d:8", b.configFile(), lines+1), "wieght", "weight"}},
		{"wrong unit", "  w2: {min: 3MB/s}\n", 2, []string{fmt.Sprintf(":%d:", lines+1), "min", "3MB/s"}},
		{"min above max", "  w2: {min: 3mbit, max: 2mbit}\n", 2, []string{fmt.Sprintf(":%d:", lines+1), "min", "3 Mbit/s", "2 Mbit/s"}},
		{"no YAML", "  w2: {\n", 2, []string{b.configFile()}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := b.with(t)
			b.write(string(good) + test.more)
			b.oneLine("agent", b.cli("agent", "--config", b.configFile()), test.code, test.words...)
			b.asBefore(test.name, before)
		})
	}
	if !onBPF() {
		b.write(string(good))
		b.oneLine("--backend bpf", b.cli("agent", "--config", b.configFile(), "--backend", "bpf"), 3, "BPF qdisc", "6.16", "CONFIG_NET_SCH_BPF")
		b.asBefore("kernel without support", before)
	}
}
