// SPDX-License-Identifier: Apache-2.0

// Package informer follows the metadata of this node's pods and of the namespaces at the API
// server, and makes Events.
package informer

import (
	"fmt"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Connect returns a client of the API server that a kubeconfig names, or of the cluster that
// this program runs in.
func Connect(kubeconfig string) (metadata.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("API server: %w", err)
	}
	return metadata.NewForConfig(rest.AddUserAgent(config, "weir-kubernetes"))
}
