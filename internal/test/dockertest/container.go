// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// Container describes a container to run. The zero value of every field but Name is a
// default.
type Container struct {
	Name    string
	Labels  map[string]string
	Image   string   // Image
	Command []string // sleep for a day
	Network string   // the default bridge; or a network's name, "none", "host", "container:NAME"
	Restart string   // no restart; or "always", "on-failure", "unless-stopped"
	Rights  []string // capabilities beside Docker's own, such as "SYS_ADMIN"
}

// Run creates and starts a container and returns its id. The container ends at
// once when told to stop.
func (e *Engine) Run(ctx context.Context, c Container) (id string, err error) {
	if id, err = e.Create(ctx, c); err != nil {
		return "", err
	}
	if err := e.client.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return id, fmt.Errorf("start container %s: %w", c.Name, err)
	}
	return id, nil
}

// Create creates a container and returns its id.
func (e *Engine) Create(ctx context.Context, c Container) (id string, err error) {
	if c.Image == "" {
		c.Image = Image
		if err := e.ensureImage(ctx); err != nil {
			return "", err
		}
	}
	if c.Command == nil {
		c.Command = []string{"sleep", "86400"}
	}
	made, err := e.client.ContainerCreate(ctx,
		&container.Config{Image: c.Image, Cmd: c.Command, Labels: c.Labels, StopSignal: "SIGKILL"},
		&container.HostConfig{
			NetworkMode:   container.NetworkMode(c.Network),
			CapAdd:        c.Rights,
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(c.Restart)},
		},
		nil, nil, c.Name)
	if err != nil {
		return "", fmt.Errorf("create container %s: %w", c.Name, err)
	}
	return made.ID, nil
}

// Remove ends and removes a container.
func (e *Engine) Remove(ctx context.Context, name string) error {
	return e.client.ContainerRemove(ctx, name, container.RemoveOptions{Force: true})
}

// Network creates a network of the given driver ("" = bridge).
func (e *Engine) Network(ctx context.Context, name, driver string, options map[string]string) error {
	_, err := e.client.NetworkCreate(ctx, name, network.CreateOptions{Driver: driver, Options: options})
	return err
}

func (e *Engine) removeContainers() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return err
	}
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, c := range list {
		wg.Go(func() { errs[i] = e.Remove(ctx, c.ID) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
