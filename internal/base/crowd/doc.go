// SPDX-License-Identifier: Apache-2.0

// Package crowd bounds what many callers may have a server do, so that one of them keeps no
// other out: connections that are open at once, attempts, and lines of the log about refusals.
// All are counted by party: a user, an address, a member.
//
//	at := crowd.Listen(tcp, crowd.ConnLimits{Unknown: 512, Each: 64, All: 256})
//	conn, err := at.Accept()                           // a stranger's; another one's was closed to make room
//	err = conn.(*crowd.Conn).Admit("view", "uid 1000") // it is alice's now, and makes room for no stranger
//
//	if !rates.Take("192.0.2.7", time.Now()) { ... }         // it has failed too often
//	if n, due := lines.Due(time.Now()); due { log.Warn(...) } // n lines were left out
//
// Example: 512 connections of strangers may be open, and 192.0.2.7 opens 3,000 a second. Its
// own make room for its new ones, as long as no other address has more of them: first the one
// for which the server has waited the longest. A stranger's connection makes room among those
// that have come as far: that are silent, that have sent something, whose request is here as a
// whole. So an address whose connections say nothing pushes out none that does, and 1,000
// addresses with one connection each push out none that is being answered.
//
// Known parties have places by class: 8 users who may only look fill those of their class, and
// those of users who may change something stay free.
//
// What it does not do: decide who may ask for what.
package crowd
