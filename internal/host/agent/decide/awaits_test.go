// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"

	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// A workload that is waited for says for what.
func TestWaitingHasAReason(t *testing.T) {
	for _, c := range []struct {
		name string
		w    discover.Workload
		want string
	}{
		{"its source knows", discover.Workload{Key: "dev:vm", Name: "vm", Kind: workload.KindDevice, Awaits: "device tap1 is not on this host"}, "device tap1 is not on this host"},
		{"a container", discover.Workload{Key: "docker:c", Name: "c", Kind: workload.KindDocker}, "its network is not up"},
		{"a unit", discover.Workload{Key: "unit:u", Name: "u", Kind: workload.KindUnit}, "it has no cgroup yet"},
	} {
		w := knowing(t, "")
		w.Found = []discover.Workload{c.w}
		v, _ := Decide(w).Ruling(c.w.Key)
		if v.State != workload.StateWaiting || v.Note != c.want {
			t.Errorf("%s: state %s, note %q, want %q", c.name, v.State, v.Note, c.want)
		}
	}
}
