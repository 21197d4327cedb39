// SPDX-License-Identifier: Apache-2.0

// Command weir-lab has weir's lab and demonstration: weir lab and weir demo run it.
// Everything it does is in package labcli.
package main

import (
	"os"

	"weir/internal/lab/labcli"
)

func main() { os.Exit(labcli.Main()) }
