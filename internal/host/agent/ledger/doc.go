// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps how many bytes each workload and group has sent and received by each
// link, hour by hour, for 400 days.
//
// The kernel counts; the ledger adds up what its counters grew by since they were read last.
// The sums and the counters that they follow from are in one file, so an agent that is
// killed loses nothing: the next one finds the kernel's counters ahead of those in the file,
// and adds the difference. Example: the file says that web had sent 5 GB when class 1 stood at
// 2 GB. The agent is killed and started again a minute later. Class 1 stands at 2.1 GB then, so
// web has sent 5.1 GB.
//
// A class that is made anew counts from 0. That the kernel's record is gone is seen by
// counters that went back, by another boot of the host, and by another backend. What a class
// sent between the last reading and its end is lost: less than a second's traffic. The file
// is written every 10 s, and at once where the kernel no longer holds what the last reading
// had; a power cut loses 10 s.
//
// A day (UTC) that is over has a file of its own. The newest 400 of them are kept, counted
// and not compared with the clock, so that a clock that was set wrong deletes nothing.
//
// What it does not do: limit anything (package policy/quota says what a quota is).
package ledger
