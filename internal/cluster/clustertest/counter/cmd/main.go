// SPDX-License-Identifier: Apache-2.0

// The counter as a program of its own.
package main

import (
	"fmt"
	"os"

	"weir/internal/cluster/clustertest/counter"
)

func main() {
	fmt.Fprintln(os.Stderr, counter.Main(os.Args[1:])) // which ends only with an error
	os.Exit(1)
}
