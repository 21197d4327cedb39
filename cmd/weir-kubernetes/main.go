// SPDX-License-Identifier: Apache-2.0

// Command weir-kubernetes is the part of Weir on a node of a Kubernetes cluster. Everything it
// does is in package kubernetes.
package main

import (
	"os"

	"weir/internal/kube"
)

func main() { os.Exit(kube.Main()) }
