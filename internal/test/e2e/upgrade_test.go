// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An agent whose qdisc is of another build than the one that it finds puts its
// own in place while packets flow.
//
// To the agent, the other build is a name: the pin of the qdisc's registration
// ends in a hash of the object that it was loaded from. The test renames it.
func TestUpgradeUnderLoad(t *testing.T) {
	if !onBPF() {
		t.Skip("skipped: the tc fallback has no object of its own to replace; in a VM (vm/run) there is one")
	}
	b := newBed(t, 3, 1)
	b.configure("workloads:\n  w2: {weight: 3}\n")
	a := b.start()
	b.steered(a)
	b.flood(0, 1, 0.4)
	b.flood(0, 2, 0.9)
	modest := b.udp(0, 3, 0.1)
	b.warmUp()
	before := b.full(0, 2*time.Second)
	was, qdisc, classes := inventory(t, nil), b.rootQdisc(0), b.get()

	a.kill()
	b.anotherBuild()
	a = b.start()
	b.steered(a)
	b.same("with the new qdisc", b.full(0, 2*time.Second), before, unchanged)
	if now := b.rootQdisc(0); now == qdisc {
		t.Errorf("the qdisc is still %q", now)
	} else {
		t.Logf("%q was replaced by %q", qdisc, now)
	}
	for name, w := range b.get() {
		if w.Class != classes[name].Class {
			t.Errorf("%s was class %d, is class %d", name, classes[name].Class, w.Class)
		}
	}
	await(t, 10*time.Second, "the old build is gone", func() error {
		now := inventory(t, nil)
		if len(now.Pins) > len(was.Pins) {
			return fmt.Errorf("pins were %v, are %v", was.Pins, now.Pins)
		}
		now.Pins = was.Pins // they have other names
		return now.more(was)
	})
	b.addUp(b.counters(0))
	// What waits in the old qdisc is lost with it. Of a stream below its share
	// that is a packet or two.
	sent, lost := b.settle(modest)
	t.Logf("of %d packets below their share, %d were lost", sent, lost)
	if lost[0] > 5 {
		t.Errorf("the replacement cost %d packets", lost[0])
	}
}

// anotherBuild makes the pinned objects look like the work of another build of weir.
func (b *bed) anotherBuild() {
	b.t.Helper()
	for _, pin := range inventory(b.t, nil).Pins {
		name := filepath.Base(pin)
		if !strings.HasPrefix(name, "qdisc_") {
			continue
		}
		at := filepath.Join("/sys/fs/bpf/weir", filepath.Dir(pin))
		other := name[:strings.LastIndex(name, "_")+1] + "000000000000"
		if err := os.Rename(filepath.Join(at, name), filepath.Join(at, other)); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	b.t.Fatal("no qdisc is pinned")
}
