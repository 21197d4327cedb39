// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"testing"
)

// TestPodIsAWorkloadBeforeItsContainers: when the runtime may start containers, the class is
// there, with what the annotations say.
func TestPodIsAWorkloadBeforeItsContainers(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	web := pod("default/web", "s1", "weir.dev/weight", "3", "weir.dev/min", "20M", "kubernetes.io/egress-bandwidth", "40M", "kubernetes.io/ingress-bandwidth", "50M")
	b.run(web)
	want := "default/web weight 3 min 20 Mbit/s max 40 Mbit/s veth-s1\ningress: default/web weight 1 max 50 Mbit/s veth-s1"
	if got := b.state(); got != want {
		t.Errorf("when the sandbox runs eth0 has\n%s\nwant\n%s", got, want)
	}
	b.remove(web)
	b.expect("removed")
	if told := b.told(); len(told) > 0 {
		t.Errorf("Events: %q", told)
	}
}
