// SPDX-License-Identifier: Apache-2.0

// Command etcd is etcd's own, whose main package is in a module that cannot be required.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
