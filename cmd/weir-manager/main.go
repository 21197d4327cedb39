// SPDX-License-Identifier: Apache-2.0

// Command weir-manager makes and runs the manager of a cluster: weir manager init, serve and
// restore run it. Everything it does is in package managercli.
package main

import (
	"os"

	"weir/internal/face/managercli"
)

func main() { os.Exit(managercli.Main()) }
