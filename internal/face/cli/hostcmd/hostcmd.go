// SPDX-License-Identifier: Apache-2.0

// Package hostcmd has the commands about one host: each turns arguments into one call of the
// agent's API, and its answer into text. Example: weir set web --min 20mbit becomes PATCH
// /v1/workloads/web/policy on the agent's socket, and prints the changes.
//
// Functions from values to strings render the answers, so that tests need no agent. Flags of
// policies are made from package policy's table of fields. The commands of a cluster are in
// package clustercmd, and those that run until they are told to stop in package servecmd.
package hostcmd

import "weir/internal/face/cli/frame"

// Commands makes the commands of a host.
type Commands struct{ *frame.App }
