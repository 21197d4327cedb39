// SPDX-License-Identifier: Apache-2.0

// Command kubectl-weir is the plugin "kubectl weir". Everything it does is in package plugin.
package main

import (
	"os"

	"weir/internal/kube/plugin"
)

func main() { os.Exit(plugin.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
