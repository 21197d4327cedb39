// SPDX-License-Identifier: Apache-2.0

// Package config reads weir.yaml: which links Weir steers, which policies workloads have
// by default, and where the agent keeps its files.
//
// The smallest file that does something:
//
//	links:
//	  - device: eth0
//	    egress: 100mbit
//	workloads:
//	  web: {weight: 3, min: 20mbit}
//	  "batch-*": {max: 25%}
//
// Parse checks every value before anything is used and reports every problem with line,
// column, field, value and remedy; a key that it does not know is one, with the nearest
// key that it does know. Default holds all defaults. Watch tells when the file has
// changed; the agent decides what follows, and keeps the old configuration where the new
// one is bad.
//
// The file is read as a tree of YAML nodes and not into Go structs by
// reflection, because only the tree knows where a value stands, and one pass
// can then report all problems instead of the first.
//
// What it does not do: look at the machine. The agent finds out whether a device exists
// and whether a min fits.
package config
