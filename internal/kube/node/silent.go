// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"os"
	"slices"
	"time"
)

// unheard is a pod that the API server has on this node and whose sandbox the runtime has not told
// of, or has not said that it is gone.
type unheard struct {
	uid   string
	since time.Time
	next  time.Duration // after that time the runtime is asked
}

// longestMute is the longest time between two questions because of the same pod: it may have no
// sandbox for hours, because a volume is missing or because it has ended.
const longestMute = 10 * time.Minute

// Silent returns a channel that has a value when the runtime should be asked for all that there
// are: it is connected, and has said nothing of a pod for Times.Mute.
func (n *Node) Silent() <-chan struct{} { return n.silent }

// listen looks for pods that the runtime should have told of.
func (n *Node) listen(now time.Time) {
	if !n.listed || !n.known {
		return
	}
	before, late := n.unheard, false
	n.unheard = map[string]unheard{}
	for _, key := range slices.Sorted(maps.Keys(n.metas)) {
		if s, told := n.sandboxes[key]; told && (!s.stopped.IsZero() || s.Netns == "" || exists(s.Netns)) {
			continue
		}
		u := before[key]
		if u.since.IsZero() || u.uid != n.metas[key].UID {
			u = unheard{n.metas[key].UID, now, n.opts.Times.Mute}
		}
		if now.Sub(u.since) >= u.next {
			late = true
			u.next = min(2*u.next, u.next+longestMute)
		}
		n.unheard[key] = u
	}
	if !late || now.Sub(n.asked) < n.opts.Times.Mute {
		return
	}
	n.asked = now
	select {
	case n.silent <- struct{}{}:
	default:
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
