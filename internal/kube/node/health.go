// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"time"
)

// stuckAfter is how long one turn of Run may take. A turn that waits for an agent ends after
// Times.Call, so a longer one never ends.
const stuckAfter = 2 * time.Minute

// health is what Run knows at the end of a turn.
type health struct {
	listed, known, agent bool
	turned               time.Time
}

// note keeps the state of this turn for Ready and Live.
func (n *Node) note(now time.Time) {
	n.health.Store(&health{listed: n.listed, known: n.known, agent: n.have != nil, turned: now})
}

// Ready returns nil when the runtime and the API server have said what there is and the agent has
// been asked for what follows. Otherwise the error names what is missing. An API server that goes
// away later does not count: pods stay as they are.
func (n *Node) Ready() error {
	h := n.health.Load()
	switch {
	case h == nil:
		return errors.New("weir-kubernetes has just started")
	case !h.listed:
		return errors.New("the container runtime has not said which pods there are; it needs NRI, see --nri-socket")
	case !h.known:
		return errors.New("the API server has not answered; look at its address and at the rights to list pods and namespaces")
	case !h.agent:
		return errors.New("the agent does not answer; see --socket")
	}
	return nil
}

// Live returns an error when Run has not ended a turn for stuckAfter.
func (n *Node) Live() error { return n.liveAt(time.Now()) }

func (n *Node) liveAt(now time.Time) error {
	if h := n.health.Load(); h != nil && now.Sub(h.turned) > stuckAfter {
		return fmt.Errorf("no comparison has ended for %v", now.Sub(h.turned).Round(time.Second))
	}
	return nil
}
