// SPDX-License-Identifier: Apache-2.0

// Package crowd bounds what many callers may have a server do, so that one of them keeps no
// other out: connections that are open at once, attempts, and lines of the log about refusals.
// All are counted by party: a user, an address, a member.
//
//	at := crowd.Listen(tcp, crowd.Limits{Unknown: 512, Each: 64, All: 256})
//	conn, err := at.Accept()                     // of nobody yet; others may have made room
//	err = conn.(*crowd.Conn).Admit("uid 1000")   // it is alice's now, and makes room for no stranger
//
//	if !rates.Take("192.0.2.7", time.Now()) { ... }         // it has failed too often
//	if n, due := lines.Due(time.Now()); due { log.Warn(...) } // n lines were left out
//
// Example: 512 connections of strangers may be open, and 192.0.2.7 opens 3,000 a second. Its
// own oldest make room for its new ones, as long as no other address has more of them. Those
// that have sent something and those that have not make room among themselves: a browser's
// connection is silent for less than a millisecond.
//
// What it does not do: decide who may ask for what.
package crowd
