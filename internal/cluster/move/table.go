// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Party is one of those that decide whether a step may be taken.
type Party uint8

// The parties.
const (
	Manager Party = 1 << iota
	Source        // the agent of the node that the container leaves
	Target        // the agent of the node that it goes to, asked by the source
	Copies        // the same agent, before its engine is asked
	Helper        // the migration helper of either node, asked by its agent
)

// Fact is something that a party knows of a move, or of the call for a step of it. Facts
// are a set.
type Fact uint32

// The facts.
const (
	Unknown     Fact = 1 << iota // nothing was begun here
	Damaged                      // what was begun here cannot be read any more
	Foreign                      // the call is about another container or other nodes than were granted
	Other                        // it shows another grant, or asks for one for another description
	OtherEnd                     // the step is the other node's
	Known                        // it was begun or granted before
	Touched                      // something was done of it since
	Ungranted                    // no such part was granted
	Done                         // this very step or part
	Created                      // the copy was
	ByCommit                     // the file system travels as an image that the source commits
	Pulled                       // that image is here
	Missing                      // a part that the copy needs
	Tried                        // a restore was begun
	Restored                     // and succeeded
	Waiting                      // for its turn
	DryRun                       // nothing is to be changed
	Late                         // the deadline of the order or grant is over
	Old                          // it began longer ago than a move may take
	Decided                      // the target was told to keep its copy
	isConfirmed                  // by Question.State
	isOver                       // by Question.State
)

// settling are the steps that end a move on one node: asked for until they have succeeded,
// however long that takes.
var settling = []Step{Confirm, Discard, Forget, Thaw}

// duties are the steps that each party decides about.
var duties = map[Party][]Step{
	Manager: {Grant, Cancel},
	Source:  {Cancel},
	Target:  slices.Concat([]Step{Preflight, Begin, Receive}, targetSteps),
	Copies:  {Receive, Create, Restore, Confirm, Discard},
	Helper:  slices.Concat([]Step{Preflight, Begin, Send, Receive, Hold, Release, Look}, sourceSteps, targetSteps),
}

// rule is a row of the table.
type rule struct {
	by     Party
	steps  []Step // nil = all
	when   Fact   // all of these
	but    Fact   // and none of these
	reason string // of a refusal; yes and same permit
	code   Code   // "" = of an answer that is not definite: the caller asks again
	text   string
}

// yes and same stand for the reason in rules that permit a step.
const (
	yes  = ""     // it may be taken
	same = "same" // it was taken before, and is answered as it was then
)

// table has all rules. The first one that holds for a party, a step and what has happened
// decides; a step for which none holds may be taken. Words in braces are of the Question.
var table = []rule{
	// To begin: a deadline, one grant, and the same again as long as nothing was done by it.
	{Manager, []Step{Grant}, Foreign, 0, WhyForeign, CodeDenied, "is no move of {container} from {node}"},
	{Manager, []Step{Grant}, Waiting, 0, WhyTurn, CodeDenied, "waits for its turn among the moves at once"},
	{Manager, []Step{Grant, Cancel}, isOver, 0, WhyReplayed, CodeGone, "has ended already: {state}"},
	{Manager, []Step{Grant}, DryRun, 0, WhyNotStep, CodeDenied, "is a dry run"},
	{Manager, []Step{Grant}, Known | Other, 0, WhyReplayed, CodeDone, "was granted for another description of {container}"},
	{Target | Copies | Helper, nil, Damaged, 0, WhyUnknown, "", "what is known of move {move} here is damaged; a person has to look at it, see the log"},
	{Target | Helper, []Step{Begin}, Known | Other, 0, WhyReplayed, CodeDone, "move {move} was begun here at {begun}"},
	{Target | Helper, []Step{Begin}, Known | Touched, 0, WhyReplayed, CodeDone, "move {move} was begun here at {begun}"},
	{Manager | Target | Helper, []Step{Begin, Grant}, Known, 0, same, "", ""},
	{Manager, []Step{Grant}, Late, 0, WhyExpired, CodeDenied, "was to be begun before {deadline}"},
	{Target | Helper, []Step{Preflight, Begin}, Late, 0, WhyExpired, CodeDenied, "move {move} was to be begun before {deadline}"},

	// A call is about a move that was begun here, by this grant, and about a step of this
	// node's.
	{Target | Helper, []Step{Begin}, 0, 0, yes, "", ""},
	{Target | Helper, nil, Unknown, 0, WhyUnknown, CodeGone, "move {move} was not begun here"},
	{Target, nil, Other, 0, WhyForeign, CodeDenied, "move {move} was begun here by another grant"},
	{Helper, nil, OtherEnd, 0, WhyNotStep, CodeDenied, "{step} of move {move} is for its other node to do"},
	{Helper, []Step{Look}, 0, 0, yes, "", ""},
	{Helper, nil, Foreign, 0, WhyForeign, CodeDenied, "move {move} is about container {container}"},

	// Once it has ended: the same end again, and nothing else.
	{Helper, []Step{Confirm, Forget, Thaw}, Done, 0, same, "", ""},
	{Helper, []Step{Release}, isConfirmed, 0, same, "", ""},
	{Copies, []Step{Restore}, isConfirmed, 0, same, "", ""},
	{Copies, []Step{Confirm}, isConfirmed, 0, yes, "", ""}, // it may be held still
	{Target, []Step{Confirm}, isConfirmed, 0, WhyReplayed, CodeDone, "the copy of {container} was confirmed already"},
	{Target | Copies | Helper, []Step{Discard}, isConfirmed, 0, WhyReplayed, CodeRefused, "the copy of {container} is the container by now"},
	{Helper, []Step{Discard}, Done, 0, yes, "", ""}, // its engine may have made something after it
	{Copies, []Step{Discard}, 0, 0, yes, "", ""},
	{Target | Copies, nil, isOver, 0, WhyReplayed, CodeGone, "the copy of {container} is {state}"},
	{Helper, nil, isOver, 0, WhyReplayed, CodeGone, "the move of {container} is {state}"},
	{Source, []Step{Cancel}, Decided, 0, WhyNotStep, CodeRefused, "too late: the target has been told to keep its copy"},

	// Each step and each part once, the parts that were granted, in time.
	{Helper, []Step{Hold, Release}, 0, 0, yes, "", ""},
	{Target | Helper, nil, Ungranted, 0, WhyAltered, CodeDenied, "the grant has no part {part}"},
	{Target, []Step{Discard}, 0, 0, yes, "", ""},
	{Target | Helper, nil, Done, 0, WhyReplayed, CodeDone, "{step} of {container} was done already"},
	{Helper, settling, 0, 0, yes, "", ""},
	{Helper, nil, Old, 0, WhyExpired, CodeDenied, "the move of {container} began at {begun}"},

	// In order. A helper leaves that to the agents.
	{Target | Copies, []Step{Confirm}, 0, Restored, WhyNotStep, CodeGone, "the copy of {container} was not restored"},
	{Target, []Step{Confirm}, 0, 0, yes, "", ""},
	{Target, nil, Tried, 0, WhyNotStep, CodeDenied, "{step} of {container} comes after its restore"},
	{Copies, []Step{Create}, Tried, 0, WhyNotStep, CodeGone, "the copy of {container} was restored already"},
	{Target, []Step{PullImage}, Created, 0, WhyNotStep, CodeDenied, "the copy of {container} was created already"},
	{Target, []Step{Pull}, 0, ByCommit, WhyNotStep, CodeDenied, "{container} does not travel by a commit, which alone has step {step}"},
	{Target, []Step{Create}, ByCommit, Pulled, WhyNotStep, CodeDenied, "the committed image of {container} was not pulled"},
	{Target, []Step{Restore}, Missing, 0, WhyNotStep, CodeDenied, "{lacks} of {container} has not arrived"},
}

// Question is a question to the table: a step, and what a party knows about its move.
type Question struct {
	By    Party
	Step  Step
	Part  string         // that is sent or received, e.g. "volume data"
	State ContainerState // of the move at this party
	Facts Fact

	// For the words of a refusal.
	Move, Container, Node, Lacks string
	Begun, Deadline              time.Time
}

// Note adds a fact if it holds.
func (c *Question) Note(holds bool, f Fact) {
	if holds {
		c.Facts |= f
	}
}

// What returns the step with its part, e.g. "receive volume data".
func (c *Question) What() string { return strings.TrimSpace(string(c.Step) + " " + c.Part) }

// rule returns the index of the rule that decides, -1 if none does.
func (c *Question) rule() int {
	facts := c.Facts
	switch c.State {
	case "":
	case Probation:
		facts |= Tried | Restored
	case Confirmed:
		facts |= isConfirmed | isOver
	default:
		facts |= isOver
	}
	return slices.IndexFunc(table, func(r rule) bool {
		return r.by&c.By != 0 && (r.steps == nil || slices.Contains(r.steps, c.Step)) && facts&r.when == r.when && facts&r.but == 0
	})
}

// Take says whether the step may be taken now. It may not if there is an error; with again it
// was taken before, and is answered as it was then.
func (c *Question) Take() (again bool, err error) {
	if !slices.Contains(duties[c.By], c.Step) {
		return false, Deny(WhyNotStep, CodeDenied, "%.40q is no step to be taken here", string(c.Step))
	}
	at := c.rule()
	if at < 0 || table[at].reason == yes || table[at].reason == same {
		return at >= 0 && table[at].reason == same, nil
	}
	words := strings.NewReplacer("{move}", fmt.Sprintf("%.63s", c.Move), "{container}", c.Container, "{node}", c.Node, "{step}", c.What(), "{part}", fmt.Sprintf("%.80q", c.Part),
		"{lacks}", c.Lacks, "{state}", string(c.State), "{begun}", c.Begun.Format(time.DateTime), "{deadline}", c.Deadline.Format(time.DateTime))
	text := words.Replace(table[at].text)
	if table[at].code == "" {
		return false, errors.New(text)
	}
	return false, &Denied{table[at].reason, &Error{Code: table[at].code, Msg: text}}
}
