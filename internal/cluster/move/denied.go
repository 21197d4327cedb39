// SPDX-License-Identifier: Apache-2.0

package move

import "fmt"

// Denied is a refusal with its reason, for the counters.
type Denied struct {
	Reason string
	Answer *Error
}

func (d *Denied) Error() string { return d.Answer.Error() }
func (d *Denied) Unwrap() error { return d.Answer }

// Why a call of another node, a message in the manager's name, or a call to the helper
// was refused.
const (
	WhyStranger    = "stranger"     // no certificate or order of this cluster
	WhyForged      = "forged"       // not signed by whom it names, or changed since
	WhyForeign     = "foreign"      // of another node or move
	WhyExpired     = "expired"      // past its deadline
	WhyReplayed    = "replayed"     // done already, once
	WhyAltered     = "altered"      // not what the manager has granted
	WhyNotStep     = "not-a-step"   // no step of the node's role in the move, or not now
	WhyNotAccepted = "not-accepted" // cluster.accept or cluster.accept_from
	WhyUnknown     = "unknown"      // nothing of that kind was begun here
	WhyTooMany     = "too-many"     // more copies under way than one node may have
	WhySubject     = "not-a-container"
	WhyTurn        = "turn" // it waits for others
)

// Deny returns a refusal.
func Deny(reason string, code Code, format string, args ...any) error {
	return &Denied{reason, &Error{Code: code, Msg: fmt.Sprintf(format, args...)}}
}
