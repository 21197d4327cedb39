// SPDX-License-Identifier: Apache-2.0

package policy

import "time"

// Discipline says which of a workload's own packets goes first.
type Discipline string

// The disciplines. Their names are those of the field; a workload that asks for
// none has sfq.
const (
	SFQ   Discipline = "sfq"   // each flow its own queue, round robin, CoDel; sparse flows first
	FIFO  Discipline = "fifo"  // in order of arrival
	PQ    Discipline = "pq"    // strict priority, the first queue highest
	CBWFQ Discipline = "cbwfq" // queues by their mins, what one leaves goes to the others in proportion
	LLQ   Discipline = "llq"   // a strict first queue, policed to its rate, over cbwfq
)

// MaxQueues is how many queues with rules a workload can have; WEIR_MAX_QUEUES
// in bpf/weir.h is the same number.
const MaxQueues = 8

// Queue is one of a workload's queues in pq, cbwfq and llq. The order of the
// queues is the order in which their rules are tried, and in pq their priority.
type Queue struct {
	Name string
	// Rate is what llq's first queue is policed to while others wait; none elsewhere.
	Rate Amount
	// Min is what cbwfq and llq weigh the queue by; either all of them have one
	// or none, which makes them equal.
	Min Amount
	// Match lists what belongs here: a packet that one of them fits. The queue
	// without any, else the last one, takes what fits nowhere.
	Match []Match
	// DSCP is written into the queue's packets; nil = left as it is.
	DSCP *uint8
	// LimitPackets bounds the queue; 0 = default.
	LimitPackets uint32
}

// AQM is active queue management by CoDel (RFC 8289) on each queue. The zero
// value is the discipline's default: on for sfq, with 5 ms and 100 ms, off for
// the others.
type AQM struct {
	Off      bool
	Target   time.Duration // delay that may stand; 0 = 5 ms
	Interval time.Duration // over which it may not be exceeded; 0 = 100 ms
}
