// SPDX-License-Identifier: Apache-2.0

// Package doccommand reads the commands that a page of documentation shows, with
// the output that it shows for them, and compares that output with what a
// command really prints.
//
// A block is indented by four spaces, or fenced without a language or as sh. A command
// is a line of it whose first word is a program, after an optional "$ " and "sudo". A comment at
// its end does not belong to it, and a backslash at its end, or an open single quote, continues it.
// The lines below a command that begins with "$ ", up to the next command or the end of the block,
// are its output; below any other command only lines that begin with "weir: " are. What else a
// block holds, but for comments, is no command's: Others names it.
package doccommand
