// SPDX-License-Identifier: Apache-2.0

package wire

// MoveState says how far a move has come: in a node's journal and reports, in the
// manager's records, and in api.Move.
type MoveState string

// The states of a move that its source reports. All but MoveRunning settle it.
const (
	MoveRunning    MoveState = "running"
	MoveDone       MoveState = "done"        // it runs on To, and only there
	MoveRolledBack MoveState = "rolled-back" // it runs on From, and only there
	MoveRefused    MoveState = "refused"     // nothing was touched: see Error
	MoveFailed     MoveState = "failed"      // a person has to look: see Error
)

// The states that the manager adds to them.
const (
	MoveWaiting   MoveState = "waiting"   // for others to end first
	MoveOrdered   MoveState = "ordered"   // the node has not reported yet
	MoveExpired   MoveState = "expired"   // it was not begun in time
	MoveCancelled MoveState = "cancelled" // by a person, with a node that was removed, or one that it depended on did not come to its end
	MoveLost      MoveState = "lost"      // its node says nothing new about it any more; a late report of its end still counts
)

// Settles reports whether s is one of the ends that a move's source reports.
func (s MoveState) Settles() bool {
	switch s {
	case MoveDone, MoveRolledBack, MoveRefused, MoveFailed:
		return true
	}
	return false
}

// UnderWay reports whether a node may be working on the move.
func (s MoveState) UnderWay() bool { return s == MoveOrdered || s == MoveRunning }

// Final reports whether the move has ended, as far as is known.
func (s MoveState) Final() bool { return s != "" && s != MoveWaiting && !s.UnderWay() }

// PlaceState says how far the manager is with a place for a guarantee that a node refused.
type PlaceState string

// The states of a place.
const (
	PlaceMoving   PlaceState = "moving"   // containers move, to make room or to where there is room
	PlaceApplying PlaceState = "applying" // the policy is on its way to the container's node
	PlaceDone     PlaceState = "done"     // the guarantee is in force
	PlaceFailed   PlaceState = "failed"
)

// Final reports whether the manager does nothing more for the place.
func (s PlaceState) Final() bool { return s == PlaceDone || s == PlaceFailed }

// EngineName names a kind of container engine. Containers move between nodes that have
// the same.
type EngineName string

// The engines whose containers can be moved.
const (
	EngineDocker EngineName = "docker"
	EnginePodman EngineName = "podman"
)
