// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// MatchesOf returns the matches of each queue, as package classify takes them.
func MatchesOf(queues []Queue) [][]classify.Match {
	all := make([][]classify.Match, len(queues))
	for i, q := range queues {
		all[i] = q.Match
	}
	return all
}

// Turns returns the index of the queue in which flows take turns, the one that takes the rest; -1
// if none is such.
func (p Policy) Turns() int {
	if rest := classify.Rest(MatchesOf(p.Queues)); p.Discipline.HasQueues() && rest < len(p.Queues) && p.Isolation != discipline.NoIsolation &&
		p.Queues[rest].Max == (Amount{}) && p.Queues[rest].Reserve == (Amount{}) {
		return rest
	}
	return -1
}

// CheckRules looks for mistakes in the rules of the queues as a whole. The error,
// an *invalid.Error, says that there are too many or that one can never fit; the warnings
// are about those that overlap in part, in the same words.
func CheckRules(queues []Queue) (warnings []*invalid.Error, err error) {
	matches := MatchesOf(queues)
	if _, err := classify.Compile(matches); err != nil {
		return nil, err
	}
	for _, c := range classify.Clashes(matches) {
		mistake := clashError(c, queues[c.Queue].Name, queues[c.By].Name)
		if c.Unreachable {
			return nil, mistake
		}
		warnings = append(warnings, mistake)
	}
	return warnings, nil
}

// clashError returns the clash between a queue and an earlier one as a mistake.
func clashError(c classify.Clash, queue, earlier string) *invalid.Error {
	what := fmt.Sprintf("%s in queue %s takes some of its packets before", c.ByMatch, earlier)
	remedy := "write ranges that do not overlap, if that is not meant"
	if c.Unreachable {
		what = fmt.Sprintf("can never fit, %s in queue %s takes its packets before", c.ByMatch, earlier)
		remedy = fmt.Sprintf("put queue %s before queue %s, or remove the match", queue, earlier)
	}
	return &invalid.Error{Field: "queues." + queue, Value: c.Match.String(), Msg: what, Remedy: remedy}
}
