// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/test/goldentest"
)

// past is what has happened of a move at one role.
type past struct {
	name  string
	state ContainerState
	facts Fact
}

// pasts has for each role what can have happened, in the order in which it comes.
var pasts = []struct {
	role Party
	name string
	list []past
}{
	{Manager, "manager", []past{{"it is none of this node's", "", Foreign}, {"it waits", "", Waiting}, {"it is ordered", "", 0}, {"it is ordered as a dry run", "", DryRun},
		{"its deadline is over", "", Late}, {"it is granted", "", Known}, {"it is granted, and its deadline over", "", Known | Late}, {"it is granted for another description", "", Known | Other},
		{"it has ended", "rolled-back", Known}}},
	{Source, "source", []past{{"nothing is decided", "", 0}, {"it is decided", "", Decided}}},
	{Target, "target", []past{{"nothing was begun", "", Unknown}, {"what was begun is damaged", "", Unknown | Damaged}, {"nothing was begun in time", "", Unknown | Late}, {"it was begun by another grant", "", Known | Other},
		{"it was begun", "", Known | Missing}, {"it was begun, by a commit", "", Known | Missing | ByCommit}, {"the commit is pulled", "", Known | Touched | Missing | ByCommit | Pulled},
		{"the copy is created", "", Known | Touched | Created | Missing}, {"a part comes that was not granted", "", Known | Ungranted | Missing}, {"this was done before", "", Known | Touched | Done | Missing},
		{"all parts are here", "", Known | Touched | Created}, {"a restore has failed", "", Known | Touched | Created | Tried},
		{"the copy is restored", "", Known | Touched | Created | Tried | Restored}, {"the copy is confirmed", Confirmed, Known | Touched | Created | Tried | Restored},
		{"the copy is discarded", Discarded, Known | Touched | Created}}},
	{Copies, "copies", []past{{"there is none", "", 0}, {"what was known is damaged", "", Damaged}, {"on probation", Probation, 0}, {"confirmed", Confirmed, 0}, {"discarded", Discarded, 0}}},
	{Helper, "helper", []past{{"nothing was begun", "", Unknown}, {"what was begun is damaged", "", Unknown | Damaged}, {"nothing was begun in time", "", Unknown | Late}, {"the call is about another container", "", Known | Foreign},
		{"the call is of the other end", "", Known | OtherEnd}, {"it was begun", "", Known}, {"it was begun by another grant", "", Known | Other}, {"a part comes that was not granted", "", Known | Ungranted},
		{"this was done before", "", Known | Touched | Done}, {"it began a day ago", "", Known | Touched | Old}, {"the copy is confirmed", Confirmed, Known | Touched},
		{"this has confirmed the copy", Confirmed, Known | Touched | Done}, {"the copy is discarded", Discarded, Known | Touched}, {"this has discarded the copy", Discarded, Known | Touched | Done},
		{"the source has forgotten it", Forgotten, Known | Touched}, {"the source's container runs again", Thawed, Known | Touched}}},
}

// ask returns a question with words for all that a refusal may say.
func ask(by Party, step Step, state ContainerState, facts Fact) Question {
	c := Question{By: by, Step: step, State: state, Facts: facts, Move: "m-1", Container: "web", Node: "a", Lacks: "volume data", Begun: time.Unix(0, 0).UTC(), Deadline: time.Unix(600, 0).UTC()}
	if step == Send || step == Receive {
		c.Part = "checkpoint"
	}
	return c
}

// TestTable: testdata/table.txt has for every role, step and past whether the step may be
// taken, and else the refusal.
func TestTable(t *testing.T) {
	var out strings.Builder
	for _, p := range pasts {
		fmt.Fprintf(&out, "# %s\n", p.name)
		for _, past := range p.list {
			fmt.Fprintf(&out, "\n%s\n", past.name)
			var order []string
			by := map[string][]string{}
			for _, step := range duties[p.role] {
				c := ask(p.role, step, past.state, past.facts)
				again, err := c.Take()
				answer := "may be taken"
				var no *Denied
				switch {
				case errors.As(err, &no):
					answer = fmt.Sprintf("%s, %s: %s", no.Reason, no.Answer.Code, strings.Replace(no.Answer.Msg, c.What()+" of ", "STEP of ", 1))
				case err != nil:
					answer = "no definite answer: " + err.Error()
				case again:
					answer = "answered as before"
				}
				if by[answer] == nil {
					order = append(order, answer)
				}
				by[answer] = append(by[answer], string(step))
			}
			for _, answer := range order {
				list := strings.Join(by[answer], ", ")
				if len(by[answer]) == len(duties[p.role]) {
					list = "each step"
				}
				fmt.Fprintf(&out, "\t%s\n\t\t%s\n", answer, list)
			}
		}
		out.WriteString("\n")
	}
	goldentest.Check(t, "testdata/table.txt", out.String())
}

// TestWhateverHappened tries each step of every role in each state that it knows, with every set of
// facts that it has rules for.
func TestWhateverHappened(t *testing.T) {
	reached, asked := map[int]bool{}, 0
	for _, p := range pasts {
		states := []ContainerState{""}
		for _, past := range p.list {
			if !slices.Contains(states, past.state) {
				states = append(states, past.state)
			}
		}
		var used []Fact
		for f := Unknown; f <= Decided; f <<= 1 {
			if slices.ContainsFunc(table, func(r rule) bool { return r.by&p.role != 0 && (r.when|r.but)&f != 0 }) {
				used = append(used, f)
			}
		}
		for set := range 1 << len(used) {
			var facts Fact
			for i, f := range used {
				if set&(1<<i) != 0 {
					facts |= f
				}
			}
			for _, state := range states {
				for _, step := range duties[p.role] {
					c := ask(p.role, step, state, facts)
					at := c.rule()
					if at >= 0 && !reached[at] {
						again, err := c.Take()
						var no *Denied
						if errors.As(err, &no) && (no.Reason == "" || no.Answer.Code == "" || no.Answer.Msg == "" || strings.ContainsAny(no.Answer.Msg, "{}")) || err != nil && again {
							t.Errorf("rule %d: %v, %v", at, again, err)
						}
						reached[at] = true
					}
					asked++
					may, again := at < 0 || table[at].reason == yes, at >= 0 && table[at].reason == same
					if wrong := forbidden(c, may, again); wrong != "" {
						t.Fatalf("%s, %s in state %q with facts %b: %s, by rule %d", p.name, step, state, facts, wrong, at)
					}
				}
			}
		}
	}
	for i, r := range table {
		if !reached[i] {
			t.Errorf("no case reaches rule %d: %+v", i, r)
		}
	}
	t.Logf("%d questions", asked)
}

// TestNoStepOfItsOwn: a role permits no step but those that it decides about.
func TestNoStepOfItsOwn(t *testing.T) {
	for _, by := range []Party{Manager, Source, Target, Copies, Helper} {
		for _, step := range slices.Concat(duties[Helper], []Step{Grant, Cancel, "rm -rf", ""}) {
			c := ask(by, step, "", 0)
			if _, err := c.Take(); !slices.Contains(duties[by], step) && err == nil {
				t.Errorf("role %d permits %q", by, step)
			}
		}
	}
}

// forbidden says what an answer breaks of what has to hold whatever the table says, "" if
// nothing.
func forbidden(c Question, may, again bool) string {
	has := func(f Fact) bool { return c.Facts&f != 0 }
	guarded := c.By == Target || c.By == Helper
	before := c.Step == Begin || c.Step == Preflight
	ends := c.State != "" && c.State != Probation
	switch {
	case (may || again) && has(Damaged) && c.By&(Target|Copies|Helper) != 0:
		return "a step of a move of which nothing is known any more"
	case c.State == Confirmed && c.Step == Discard && (may || again) && c.By&(Target|Copies|Helper) != 0:
		return "a confirmed copy is discarded"
	case (may || again) && guarded && !before && has(Unknown):
		return "a step of a move that was not begun"
	case (may || again) && c.By == Helper && !before && has(OtherEnd):
		return "a step of the other end"
	case (may || again) && c.By == Helper && !before && c.Step != Look && has(Foreign):
		return "a step about another container"
	case may && guarded && ends && !before && c.Step != Look && c.Step.Leads() != c.State && !(c.Step == Discard && has(Done)):
		return "a step after the end"
	case may && c.By == Copies && ends && slices.Contains([]Step{Create, Receive, Restore}, c.Step):
		return "a copy is made after the end"
	case may && c.By == Target && !before && has(Tried) && c.Step != Confirm && c.Step != Discard:
		return "what a restore uses is changed under it"
	case (may || again) && c.Step == Confirm && c.State == "" && c.By&(Copies|Target) != 0 && !has(Restored):
		return "a copy that was not restored is confirmed"
	case may && guarded && has(Done) && !before && c.Step.Leads() == "" && !slices.Contains([]Step{Hold, Release, Look}, c.Step):
		return "a step is taken twice"
	case may && c.By == Helper && has(Old) && c.Step.Leads() == "" && !before && !slices.Contains([]Step{Hold, Release, Look}, c.Step):
		return "a step a day late"
	case may && c.Step == Grant && c.By == Manager && (has(Foreign) || has(Waiting) || has(DryRun) || has(Late) || has(Known) || ends):
		return "a grant that must not be"
	case again && c.Step == Grant && (has(Foreign) || has(Waiting) || has(DryRun) || has(Other) || ends):
		return "a grant that must not be given again"
	case may && guarded && before && has(Late) && !(c.Step == Preflight && has(Known)):
		return "something is begun after its deadline"
	}
	return ""
}
