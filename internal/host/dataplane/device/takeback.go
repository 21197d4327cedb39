// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"time"

	"weir/internal/host/dataplane"
)

// mayReplace returns why a qdisc that Weir did not set may be replaced, or the refusal.
func mayReplace(dev Device, root Qdisc, opts dataplane.Options, held bool, taken *takenBack) (string, error) {
	switch {
	case held && !taken.again(time.Now()):
		return "", fmt.Errorf("%s: %w (%s), and another program has set it %d times within a minute: keep that program off the device, or take the link out of weir.yaml",
			dev.Name, dataplane.ErrForeignQdisc, root, mostTakenBack+1)
	case held:
		return "Weir steers the link", nil
	case opts.Force:
		return "--force says so", nil
	case opts.Switch && root.OfSwitch():
		return "Open vSwitch leaves the device to Weir", nil
	}
	return "", fmt.Errorf("%s: %w (%s); replace it with --force, or take it away with: tc qdisc del dev %s root",
		dev.Name, dataplane.ErrForeignQdisc, root, dev.Name)
}

// mostTakenBack is how often within a minute Weir takes the root back from a program that sets its
// own qdisc there. Each time costs the packets that wait in both.
const mostTakenBack = 20

// takenBack has the times of the last minute at which roots were taken back from another program.
type takenBack []time.Time

// again reports whether a root may be taken back now, and counts that.
func (t *takenBack) again(now time.Time) bool {
	*t = slices.DeleteFunc(*t, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if len(*t) >= mostTakenBack {
		return false
	}
	*t = append(*t, now)
	return true
}
