// SPDX-License-Identifier: Apache-2.0

// Package event says when an operator has to be told something: which conditions there are,
// when each begins and ends, in which words, and what to do about it.
//
// Once a second the agent hands a Book what it sees of its host, a Sight. The Book looks for
// the conditions of the table Kinds and answers with events: one when a condition begins, one
// when it is over. A condition that goes on makes no further event.
//
//	09:00:00  web's min of 60 Mbit/s does not fit       event 41: refused, begin
//	09:00:01  the same                                  nothing
//	09:10:00  db gives its min back, web's fits         nothing yet: it may come again
//	09:10:10  web has had its min for 10 s              event 42: refused, end
//
// Each kind has times against events that come and go: a condition has to last for Wait before
// its event, and to be gone for Quiet before its end. The kind drops has a second bound too: it
// begins above the configured part and ends below half of it.
//
// The package is pure: the clock, the disk (State) and the ways out (package agent/notify) are
// its callers'. It measures nothing; what is dropped each second comes with the Sight.
package event
