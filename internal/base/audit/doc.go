// SPDX-License-Identifier: Apache-2.0

// Package audit keeps a record of who changed what: a file to which lines are only
// ever added, one JSON object a line, on the disk before the next line is written.
//
//	{"time":"2026-11-22T20:15:03.1Z","who":{"via":"socket","uid":1000,"user":"alice","command":"weir"},
//	 "action":"set-policy","object":"web","change":{"max":"10mbit"},
//	 "before":{"max":"none"},"after":{"max":"10mbit"},"result":"done"}
//
// Do surrounds an action: what it calls may Note what was there before and after,
// and how the action ends is its result. A dry run is not recorded.
//
// A name cannot forge a line: JSON escapes line ends, and Append escapes whatever else is
// not printable, so that a terminal shows the line as it is. A line has at most MaxLine
// bytes. A caller that is refused again and again gets a line for some of the refusals,
// with the number of the others, so that it cannot push older lines out of the file.
//
// Files rotate by size: audit.log, audit.log.1 (the one before) to audit.log.8. Root on
// this machine can change them; copy them elsewhere if that matters.
//
// A line that cannot be written (the disk is full) does not stop the change: a user who
// can fill a disk could otherwise keep an operator from acting. The line goes to
// the program's own log instead, and the next line that can be written says how many are
// missing.
package audit
