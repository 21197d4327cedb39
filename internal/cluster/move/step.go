// SPDX-License-Identifier: Apache-2.0

package move

import "slices"

// Step is something that one of the two nodes does.
type Step string

// The steps in the order in which they come. Which are taken depends on the approach.
const (
	// On the source, while the container runs.
	PushImage Step = "push-image" // its image to the registry, as far as it is not there
	PreCopy   Step = "pre-copy"   // its memory as it is now, so that the checkpoint has only what changes after that

	// On the target, while the container still runs on the source.
	PullImage Step = "pull-image"
	Create    Step = "create" // a container that does not run; volumes, empty

	// On the source. From here on the container does not run there.
	Freeze Step = "freeze" // checkpoint; restart policy off
	Commit Step = "commit" // the changed layer becomes an image ...
	Push   Step = "push"   // ... and goes to the registry

	// On the target.
	Pull    Step = "pull"
	Restore Step = "restore" // it could run, and is held, on probation for Order.Lease
	Confirm Step = "confirm" // it runs and stays; CodeGone if the copy is no more

	// Afterwards, or instead of going on.
	Forget  Step = "forget"  // source: the container and all that was made for the migration
	Discard Step = "discard" // target: the copy and all that was made for it, running or not
	Thaw    Step = "thaw"    // source: it runs, from its checkpoint if it does not run already

	// With the steps.
	Send    Step = "send"    // a part, out of the source
	Receive Step = "receive" // a part, into the target
	Hold    Step = "hold"    // a restored copy, as it is
	Release Step = "release" // a held copy, which runs
	Look    Step = "copy"    // whether there is a copy, and whether it runs

	// Before and beside them.
	Grant     Step = "grant"      // the manager permits one description of the container
	Preflight Step = "pre-flight" // a node is asked what it has or lacks
	Begin     Step = "begin"      // a node takes in what was granted
	Cancel    Step = "cancel"     // the source is to go back
)

// The steps of one order by the node that takes them. A source may ask those of the target of
// another node; all others are about a container of the node itself.
var (
	targetSteps = []Step{PullImage, Create, Pull, Restore, Confirm, Discard}
	sourceSteps = []Step{PushImage, PreCopy, Freeze, Commit, Push, Forget, Thaw}
)

// OfTarget reports whether a step is the target's.
func (s Step) OfTarget() bool { return slices.Contains(targetSteps, s) }

// OfSource reports whether a step is the source's.
func (s Step) OfSource() bool { return slices.Contains(sourceSteps, s) }

// ContainerState is what has become of the container of a move on one of its nodes.
type ContainerState string

// The states. One under way has none.
const (
	Probation ContainerState = "probation" // the copy is held, and ends at its time
	Confirmed ContainerState = "confirmed" // the copy is the container
	Discarded ContainerState = "discarded" // the copy must not run, whatever order comes late
	Forgotten ContainerState = "forgotten" // the source has nothing of it any more
	Thawed    ContainerState = "thawed"    // the source's container runs again
)

// Leads returns the state that a step of either node ends in, "" if none.
func (s Step) Leads() ContainerState {
	return map[Step]ContainerState{Confirm: Confirmed, Discard: Discarded, Forget: Forgotten, Thaw: Thawed}[s]
}
