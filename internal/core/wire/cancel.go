// SPDX-License-Identifier: Apache-2.0

package wire

import "cmp"

// Cancel orders the source of a move to go back to where it was, if the move is not
// decided: the target was not told yet to keep its copy. The source answers with a
// MoveReport: RolledBack or Refused if nothing has moved, else Running with Cancel set.
type Cancel struct {
	Move string `json:"move"` // id
	Node string `json:"node"` // the source
	Why  string `json:"why"`  // for people
}

// Kind implements Message.
func (Cancel) Kind() string { return "cancel" }

// Object implements Order: the move.
func (c Cancel) Object() string { return c.Move }

// Check implements Message.
func (c Cancel) Check() error { return cmp.Or(CheckMove(c.Move), CheckNode(c.Node)) }
