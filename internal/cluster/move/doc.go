// SPDX-License-Identifier: Apache-2.0

// Package move is the book of rules of one move of a container: its steps, the states that
// they lead to, and in one table which of those who take part may take a step when. It is
// pure. Each of them keeps a record of its own, because a node may be hostile, and an agent
// may be taken over:
//
//	Manager   the database                 orders a move, grants it once, cancels it
//	Source    journal (package migrate)    takes the steps, and decides how the move ends
//	Target    records (node/incoming)      lets the other node's steps in, each once, in order
//	Copies    records (migrate.Local)      keeps two copies from running, and none from being left
//	Helper    records (package warrant)    does nothing for its agent that was not granted
//
// They ask the same table, with what they know to have happened:
//
//	c := move.Question{By: move.Target, Step: move.Restore, Container: "web"}
//	c.Note(missing, move.Missing)
//	again, err := c.Take() // "a part of web has not arrived"
//
// again says that the step was taken before and is answered as then. An error is a *Denied:
// a reason for the counters, and the answer for the caller.
//
// What it does not do: know an engine, a disk or a clock.
package move
