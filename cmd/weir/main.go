// SPDX-License-Identifier: Apache-2.0

// Command weir shares a host's uplink between containers by weight, min and max.
// Everything it does is in package cli.
package main

import (
	"os"

	"weir/internal/face/cli"
)

func main() { os.Exit(cli.Main()) }
