// SPDX-License-Identifier: Apache-2.0

// Package notify carries events off the host: to a webhook and to a command, as tell in
// weir.yaml says. Example:
//
//	sinks := notify.New(log, reached, recent) // where the agent before stopped
//	sinks.Follow(config.Tell)                 // at the start, and after each reload
//	sinks.Offer(events)                       // never waits
//	reached = sinks.Reached()                 // for the next agent
//
// Each way has a goroutine, and a queue of 1,000 events. It takes them one by one, in the order
// of their ids. A webhook that fails is tried again, after 1 s to 1 min, until the event is an
// hour old; a command is run once. What is given up or falls out of a full queue is counted as
// undelivered. An agent that is killed may deliver an event twice: receivers go by its id.
//
// Package event decides what an event is. This package changes nothing on the host by itself.
package notify
