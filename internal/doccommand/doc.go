// SPDX-License-Identifier: Apache-2.0

// Package doccommand reads the commands that a page of documentation shows, with
// the output that it shows for them, and compares that output with what a
// command really prints.
//
// A command is a line of an indented block whose first word is a program, after
// an optional "$ " and "sudo". A comment at its end does not belong to it, and a
// backslash at its end continues it. The lines below a command that begins with
// "$ ", up to the next command or the end of the block, are its output; below any
// other command only lines that begin with "weir: " are.
package doccommand
