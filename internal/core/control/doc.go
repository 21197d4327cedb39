// SPDX-License-Identifier: Apache-2.0

// Package control holds a workload's goodput at a target: a controller takes the
// measured goodput and returns the rate at which the workload's packets are to leave.
//
// Why a loop at all? A schedule is in bytes on the wire, a reservation in bytes of
// payload that arrive. Between the two are headers, segments smaller than full,
// retransmissions, and a TCP that now and then leaves its turn unused. None of that
// is known beforehand, all of it shows in the goodput.
//
//	          target
//	            │ +
//	            ▼      e                 u, wire bit/s         8e9 / u = interval
//	Monitor ─►( - )──────► PID ──► bounds ──────────────────────► kernel ──► link ──┐
//	   ▲                    ▲                                                       │
//	   │                 Limiter: off while the workload offers less                │
//	   └──────────────────────── goodput, once a second ◄───────────────────────────┘
//
// It is the control system of the CPS paper (Jung, Han, Yeom and Kang, "CPS:
// Operating System Architecture for Efficient Network Resource Management with
// Control-Theoretic Packet Scheduler"), section IV: monitor, controller/actuator,
// limiter. Three things differ, on purpose:
//
//   - Equation (1) prints out where its prose means the error; here it is e = target -
//     measured.
//   - Its output is turned into an interval by 8e9 / u, not by adding a constant
//     divided by u to the interval before: a rate that is twice as large halves the
//     interval, wherever one begins.
//   - The start is not zero but the rate at which full segments have the target
//     (policy.WireOf), and a new target scales what was found before. Headers are
//     known in advance; the loop has only to find the rest, a few percent.
//
// Example: 10 Mbit/s of payload in segments of 1,448 bytes begin at 10.456 Mbit/s on
// the wire, and that is right at once. If one packet in a hundred is lost and sent
// again, 9.9 Mbit/s arrive; with the default gains the loop is at 10.55 Mbit/s on
// the wire, and at its target within 0.5 %, after three seconds.
//
// The limiter is the paper's exponential average of the offered rate (factor 1/2),
// which switches the controller off below the reservation; but not while packets
// wait for their turn, since then it is the schedule that holds the workload back
// and not the other way round.
//
// It is pure: no clock, no I/O, no logger. Every number is a float64 in bits or
// seconds. What it does not do: measure (package goodput), write (package
// dataplane), or decide who may have how much (package policy).
package control
