// SPDX-License-Identifier: Apache-2.0

// The counter as a program of its own.
package main

import (
	"fmt"
	"os"

	"weir/internal/cluster/clustertest/counter"
)

func main() {
	if err := counter.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
