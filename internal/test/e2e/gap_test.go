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
)

// On the fallback, what HTB does not hold is refused with exit code 5, the reason and
// the remedy, and nothing is stored; --accept-gaps takes it, and get, explain, status
// and the metrics show it.
func TestGapsOnTheFallback(t *testing.T) {
	if onBPF() {
		t.Skip("skipped: this kernel's backend holds every policy; TestNotHeldOnTheNextBackend covers the fallback here")
	}
	b := newBed(t, 3, 1)
	b.configure("groups:\n  office: {max: 40%}\nworkloads:\n  w3: {group: office}\n")
	a := b.start()
	await(t, 5*time.Second, "workloads seen", func() error {
		for _, name := range []string{"w1", "w2", "w3"} {
			w, err := a.Workload(context.Background(), name)
			if err == nil && len(w.Devices) == 0 {
				err = fmt.Errorf("%s has no devices", name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	remedy := []string{"up0", "6.16", "--accept-gaps"}
	gaps := []struct {
		args  string
		words []string
	}{
		{"group set tenant --max 40%", []string{"group", "tenant", "counts for itself"}},
		{"group set office --max 30%", []string{"group", "office"}},
		{"set w1 --group office", []string{"group", "office"}},
		{"set w1 --discipline llq --queue voice:{rate:1mbit,match:[{udp:5001}]} --queue rest:{}", []string{"discipline", "llq", "one queue"}},
		{"set w1 --aqm 1ms/20ms", []string{"aqm", "1ms/20ms"}},
		{"attach w9 --netns srv --discipline cbwfq --queue a:{min:1mbit,match:[{udp:1}]} --queue b:{min:1mbit}", []string{"discipline", "cbwfq"}},
	}
	args := func(text string) []string {
		list := strings.Fields(text)
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], ":", ": ")
		}
		return list
	}
	before := b.promises()
	for _, gap := range gaps {
		b.oneLine("weir "+gap.args, b.cli(args(gap.args)...), 5, append(gap.words, remedy...)...)
		b.oneLine("weir "+gap.args+" --dry-run", b.cli(append(args(gap.args), "--dry-run")...), 5, gap.words...)
		b.unchanged("after "+gap.args, before, b.promises())
	}
	if text := b.weir("status"); !strings.Contains(text, "2 problems\n") || !strings.Contains(text, "- w3: link up0: ") || !strings.Contains(text, "- group office: link up0: ") {
		t.Errorf("status:\n%s", text)
	}
	for _, gap := range gaps {
		b.weir(append(args(gap.args), "--accept-gaps")...)
	}
	for _, want := range [][]string{
		{"get", "not held (link up0: "}, {"get w1", "discipline llq is not held: HTB has one queue", "(accepted)"},
		{"explain w1", "Discipline llq is not held here", "Group office is not held here"},
		{"group list", "not held"}, {"top -n 1", "not held"},
		{"status", "1 problem: w3"},
	} {
		text := b.weir(strings.Fields(want[0])...)
		for _, word := range want[1:] {
			if want[0] == "get" {
				word = "not held"
			}
			if !strings.Contains(text, word) {
				t.Errorf("weir %s does not say %q:\n%s", want[0], word, text)
			}
		}
	}
	if text := b.host.run("curl -sS --unix-socket " + b.socket() + " http://weir/metrics"); !strings.Contains(text, `weir_policy_not_held{accepted="true",direction="egress",field="discipline",kind="workload",link="up0",name="w1"} 1`) {
		t.Errorf("not among the metrics")
	}
}

// An agent that is started again on the fallback shows what HTB does not hold of what
// was accepted on the BPF qdisc, and holds it again on the BPF qdisc.
func TestNotHeldOnTheNextBackend(t *testing.T) {
	needsQueues(t)
	b := newBed(t, 2, 1)
	b.configure("groups:\n  office: {max: 40%}\nworkloads:\n  w1: {group: office}\n")
	a := b.start()
	b.steered(a)
	b.discipline("w2", "llq", voiceQueue, restQueue)
	a.stop()
	a = b.start("--backend", "tc")
	await(t, 10*time.Second, "the policies are known not to be held", func() error {
		status, err := a.Status(context.Background())
		if err == nil && !slices.Equal(status.NotHeld, []string{"w1", "w2", "office"}) {
			err = fmt.Errorf("not held: %v", status.NotHeld)
		}
		return err
	})
	if w := a.workload("w2"); w.State != "not held" || !strings.Contains(w.Note, "discipline llq is not held") {
		t.Errorf("w2 on HTB: %s, %s", w.State, w.Note)
	}
	b.oneLine("llq again", b.cli("set", "w2", "--discipline", "pq", "--queue", "a: {match: [{udp: 1}]}", "--queue", "b: {}"), 5, "pq", "--accept-gaps")
	a.stop()
	a = b.start()
	b.steered(a)
}

// A link's settings that HTB lacks do not keep the agent from steering when it starts
// with them; asked for by a reload they are refused, and accept_gaps takes them.
func TestLinkGapsOnTheFallback(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	const plain, qcon = "bit}", "bit, scheduler: qcon, overhead: -4}"
	text, err := os.ReadFile(b.configFile())
	if err != nil {
		t.Fatal(err)
	}
	file := string(text)
	b.write(strings.Replace(file, plain, qcon, 1))
	a := b.start("--backend", "tc")
	b.steered(a)
	for command, words := range map[string][]string{
		"status":     {"1 problem", "link up0: scheduler qcon is not held on this kernel: HTB", "; overhead -4 is not held"},
		"explain w1": {"Scheduler qcon is not held here: HTB"},
	} {
		text := b.weir(strings.Fields(command)...)
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("weir %s does not say %q:\n%s", command, word, text)
			}
		}
	}
	health := func(want string) {
		t.Helper()
		await(t, 5*time.Second, "health "+want, func() error {
			if text := b.cli("status").stdout; !strings.Contains(text, want) {
				return fmt.Errorf("status:\n%s", text)
			}
			return nil
		})
	}
	b.write(file)
	health("all is well")
	b.write(strings.Replace(file, plain, qcon, 1))
	health("links: up0: scheduler qcon: link up0 does not hold it: HTB")
	if text := b.cli("status", "-o", "json").stdout; strings.Contains(text, `"not_held"`) {
		t.Errorf("taken all the same:\n%s", text)
	}
	b.write(strings.Replace(file, plain, qcon, 1) + "accept_gaps: true\n")
	health("all is well")
	health("scheduler qcon is not held on this kernel: HTB schedules in its place and divides the link as scheduler fair does (accepted)")
}
