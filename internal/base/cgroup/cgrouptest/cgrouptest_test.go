// SPDX-License-Identifier: Apache-2.0

package cgrouptest

import (
	"os"
	"testing"
)

// TestLimit: a program within the limit ends by itself, and the kernel ends one beyond it.
func TestLimit(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	m := Limit(t, 32<<20)
	if out, err := m.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=1").CombinedOutput(); err != nil || m.Killed(t) != 0 {
		t.Errorf("%v, %d killed: %s", err, m.Killed(t), out)
	}
	if err := m.Command("dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1").Run(); err == nil || m.Killed(t) != 1 {
		t.Errorf("%v, %d killed", err, m.Killed(t))
	}
	if most := m.Most(); most > 32<<20 {
		t.Errorf("%d bytes were in use", most)
	}
}
