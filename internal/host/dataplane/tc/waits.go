// SPDX-License-Identifier: Apache-2.0

package tc

import "time"

// waits is for how long a class certainly had packets waiting, and what it sent meanwhile.
//
// HTB counts no such time. Packets that wait at both ends of an interval prove nothing: a
// sender in bursts has some whenever one looks. But a queue that has sent less than what
// waited at the begin of an interval was never empty in it. A class that gets much less than
// it wants is in this state, one that gets what it wants rarely.
//
// Example: 300 packets wait, 40 are sent within 200 ms: it waited for 200 ms. Ten wait and 80
// are sent: that is not known.
type waits struct {
	time  time.Duration
	bytes uint64
}

// next returns the times after one more interval, at the begin of which so many packets waited,
// and in which so many were sent. An AQM may have dropped as many.
func (w waits) next(waiting, sent uint64, s sample) waits {
	if s.waiting == 0 || waiting == 0 || 2*sent >= waiting || s.over <= 0 {
		return w
	}
	return waits{w.time + s.over, w.bytes + s.sent}
}
