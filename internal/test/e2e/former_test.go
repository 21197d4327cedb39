// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// An agent takes over from one that was built from an older commit, with what that has pinned,
// attached and written, while packets flow both ways: shares, classes and policies are as before,
// what the older one had in the kernel is gone when it is replaced, and after a cleanup all is as
// without either. WEIR_E2E_FORMER is the older program (scripts/former).
func TestUpgradeFromFormer(t *testing.T) {
	former := os.Getenv("WEIR_E2E_FORMER")
	if former == "" {
		t.Skip("skipped: WEIR_E2E_FORMER names no program of an older commit; scripts/former builds one")
	}
	b := newBed(t, 3, 1)
	b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "accept_gaps: true\nworkloads:\n  w2: {weight: 3}\n  w3: {min: 10%}\n")
	untouched := b.traces()
	var a *agent
	func() {
		now := weir
		defer func() { weir = now }()
		weir = former
		a = b.start()
	}()
	b.steered(a)
	b.weir("set", "w1", "--weight", "2")
	b.flood(0, 1, 0.9)
	b.flood(0, 2, 0.9)
	b.warmUp()
	before, classes := b.full(0, 2*time.Second), b.get()
	a.kill()
	a = b.start()
	b.steered(a)
	b.warmUp()
	b.same("with the new program", b.full(0, 2*time.Second), before, unchanged)
	for name, w := range b.get() {
		if was := classes[name]; w.Class != was.Class || w.Policy.Weight != was.Policy.Weight || w.Policy.Min != was.Policy.Min {
			t.Errorf("%s was class %d with %+v, is class %d with %+v", name, was.Class, was.Policy, w.Class, w.Policy)
		}
	}
	if status, err := a.Status(context.Background()); err != nil || len(status.Problems) > 0 {
		t.Errorf("problems %+v, %v", status.Problems, err)
	}
	b.addUp(b.counters(0))
	a.stop()
	b.weir("cleanup", "--config", b.configFile())
	b.asBefore("cleanup of what two programs have made", untouched)
}
