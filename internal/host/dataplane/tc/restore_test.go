// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// passing is what changes by itself in what ip and tc print: the bridge's timers,
// references that packets hold, counters.
var passing = regexp.MustCompile(`(timer|refcnt|direct_packets_stat) +[0-9.]+`)

// snapshot is everything of the host that Weir could have left its traces in.
func (b *bed) snapshot() string {
	out := b.Netns.Run("tc", "qdisc", "show") + b.Netns.Run("ip", "-d", "link")
	for _, dev := range []string{"up0", "c1"} {
		out += b.Netns.Run("tc", "filter", "show", "dev", dev)
		out += b.Netns.Run("tc", "filter", "show", "dev", dev, "ingress")
	}
	return passing.ReplaceAllString(out, "$1")
}

// unchanged compares the host with a snapshot, line by line.
func (b *bed) unchanged(when, before string) {
	b.T.Helper()
	now, then := strings.Split(b.snapshot(), "\n"), strings.Split(before, "\n")
	if len(now) != len(then) {
		b.T.Errorf("%s: %d lines, %d before:\n%s", when, len(now), len(then), strings.Join(now, "\n"))
		return
	}
	for i := range now {
		if now[i] != then[i] {
			b.T.Errorf("%s:\n%s\nbefore:\n%s", when, now[i], then[i])
		}
	}
}

func TestCleanupLeavesTheHostAsFound(t *testing.T) {
	b := newBed(t, 2)
	before := b.snapshot()
	s := b.state(plan.Class{Weight: 1}, plan.Class{Weight: 2, Min: 10 * mbit})
	b.Set(b.backend(), s)
	if b.snapshot() == before {
		t.Fatal("Set changed nothing")
	}
	// By another process, without a Set of its own, and twice.
	for range 2 {
		if err := b.backend().Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.unchanged("after cleanup", before)
	}
	// And it can be set up again.
	b.Set(b.backend(), s)
}

func TestForeignQdisc(t *testing.T) {
	for _, tt := range []struct {
		name string
		add  []string // after "tc qdisc add dev up0 root"
		show string   // what must be there again after cleanup
	}{
		{"tbf", []string{"handle", "5:", "tbf", "rate", "50mbit", "burst", "20kb", "latency", "40ms"},
			"rate 50Mbit burst 20Kb lat 40ms"},
		{"pfifo", []string{"pfifo", "limit", "77"}, "limit 77p"},
		{"htb", []string{"handle", "1:", "htb", "default", "0x20"}, "r2q 10 default 0x20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t, 1)
			b.Netns.Run(append([]string{"tc", "qdisc", "add", "dev", "up0", "root"}, tt.add...)...)
			before := b.snapshot()
			if !strings.Contains(before, tt.show) {
				t.Fatalf("no %q in\n%s", tt.show, before)
			}
			s := b.state(plan.Class{Weight: 1})
			err := b.backend().Set(context.Background(), s)
			if !errors.Is(err, dataplane.ErrForeignQdisc) || !strings.Contains(err.Error(), "tc qdisc del dev up0 root") {
				t.Fatalf("Set over %s: %v", tt.name, err)
			}
			t.Log(err)
			b.unchanged("after the refused Set", before)
			b.Opts.Force = true
			b.Set(b.backend(), s)
			b.Opts.Force = false
			b.Set(b.backend(), s) // ours by now: no force needed, and still remembered
			if err := b.backend().Cleanup(context.Background()); err != nil {
				t.Fatal(err)
			}
			b.unchanged("after cleanup", before)
		})
	}
}

// A qdisc that a user set in place of Weir's is not touched by cleanup.
func TestCleanupLeavesALaterQdisc(t *testing.T) {
	b := newBed(t, 1)
	b.Set(b.backend(), b.state(plan.Class{Weight: 1}))
	b.Netns.Run("tc", "qdisc", "replace", "dev", "up0", "root", "handle", "9:", "pfifo", "limit", "9")
	if err := b.backend().Cleanup(context.Background()); err != nil {
		t.Fatal(err)
	}
	if show := b.Netns.Run("tc", "qdisc", "show", "dev", "up0"); !strings.Contains(show, "pfifo 9:") {
		t.Errorf("after cleanup: %s", show)
	}
}
