// SPDX-License-Identifier: Apache-2.0

// Package clustercmd has the commands about a cluster: its nodes, containers, plans and moves,
// and the manager's tokens, authority and snapshots. Each is one call of the manager's API and a
// function from the answer to text, as in package hostcmd. Example: weir nodes becomes GET
// /v1/nodes on the manager's socket, and prints a table.
//
// weir migrate moves a container between engines of this machine too; then no manager is
// asked, and this process takes the steps itself.
package clustercmd

import "weir/internal/face/cli/frame"

// Commands makes the commands of a cluster.
type Commands struct{ *frame.App }
