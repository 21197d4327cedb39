// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"golang.org/x/sys/unix"

	"weir/internal/base/dockerapi"
	"weir/internal/core/bound"
)

// Docker is the client of an engine that speaks Docker's API. Its methods may be called
// from several goroutines.
type Docker struct {
	client  *client.Client
	images  imageLabels
	pods    podNames
	process atomic.Int32 // at the other end of the socket, when the stream of events began
}

// NewDocker returns the client of the engine at host, such as
// "unix:///var/run/docker.sock"; "" means DOCKER_HOST, or the default socket. It does not
// connect yet.
func NewDocker(host string) (*Docker, error) {
	c, err := dockerapi.New(host)
	if err != nil {
		return nil, err
	}
	return &Docker{client: c}, nil
}

// Address implements Engine.
func (e *Docker) Address() string { return e.client.DaemonHost() }

// Process implements Engine.
func (e *Docker) Process() int { return int(e.process.Load()) }

// Close implements Engine.
func (e *Docker) Close() error { return e.client.Close() }

// interesting are the events that can change a list of workloads. The engine
// filters, so that health checks and the like never reach us. One that comes back from
// a checkpoint starts for Docker, and is restored for Podman.
var interesting = []string{"start", "restore", "die", "destroy", "rename", "connect", "disconnect"}

// Events implements Engine.
func (e *Docker) Events(ctx context.Context) (<-chan Event, <-chan error) {
	// An engine that came back may speak an older version than before.
	e.client.NegotiateAPIVersion(ctx)
	e.process.Store(int32(listener(ctx, e.Address())))
	f := filters.NewArgs(filters.Arg("type", "container"), filters.Arg("type", "network"))
	for _, action := range interesting {
		f.Add("event", action)
	}
	// The engine answers a little before it has subscribed us. It repeats what
	// happened since a given time, so that nothing is lost in between.
	since := time.Now()
	messages, errs := e.client.Events(ctx, events.ListOptions{
		Since:   strconv.FormatInt(since.Unix(), 10) + "." + nanoseconds(since),
		Filters: f,
	})
	out, outErrs := make(chan Event, 1024), make(chan error, 1)
	go func() {
		for {
			select {
			case m := <-messages:
				select {
				case out <- newEvent(m):
				case <-ctx.Done():
				}
			case err := <-errs:
				outErrs <- err
				return
			}
		}
	}()
	return out, outErrs
}

// nanoseconds returns the nine digits after the point.
func nanoseconds(t time.Time) string {
	digits := strconv.Itoa(t.Nanosecond())
	return strings.Repeat("0", 9-len(digits)) + digits
}

func newEvent(m events.Message) Event {
	e := Event{Container: m.Actor.ID, Action: string(m.Action)}
	if m.Type == events.NetworkEventType {
		e.Container = m.Actor.Attributes["container"]
	}
	return e
}

// Running implements Engine.
func (e *Docker) Running(ctx context.Context) ([]Container, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return nil, err
	}
	infos := make([]Container, len(list))
	for i, s := range list {
		infos[i] = fromSummary(s)
		e.asPod(ctx, &infos[i])
		if err := e.bake(ctx, &infos[i], s.ImageID); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// Summary implements Engine.
func (e *Docker) Summary(ctx context.Context, id string) (Container, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("id", id))})
	if err != nil {
		return Container{}, err
	}
	for _, s := range list {
		if s.ID == id {
			c := fromSummary(s)
			e.asPod(ctx, &c)
			return c, e.bake(ctx, &c, s.ImageID)
		}
	}
	return Container{}, ErrNoContainer
}

// Inspect implements Engine.
func (e *Docker) Inspect(ctx context.Context, id string) (Container, error) {
	c, err := e.client.ContainerInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return Container{}, ErrNoContainer
	}
	if err != nil {
		return Container{}, err
	}
	info := fromInspection(c)
	e.asPod(ctx, &info)
	return info, e.bake(ctx, &info, c.Image)
}

func fromSummary(s container.Summary) Container {
	c := Container{
		ID:      s.ID,
		Mode:    s.HostConfig.NetworkMode,
		Running: s.State == "running" || s.State == "paused",
	}
	c.Labels, c.Oversize = bounded(s.Labels)
	// A container has further names where an old-style link gives it an alias:
	// "/web/db" beside "/db".
	for _, name := range s.Names {
		if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
			c.Name = bound.Shown(name)
		}
	}
	if s.NetworkSettings != nil {
		c.Networks = networkNames(s.NetworkSettings.Networks)
	}
	return c
}

func fromInspection(r container.InspectResponse) Container {
	c := Container{ID: r.ID, Name: bound.Shown(strings.TrimPrefix(r.Name, "/"))}
	if r.Config != nil {
		c.Labels, c.Oversize = bounded(r.Config.Labels)
	}
	if r.HostConfig != nil {
		c.Mode = string(r.HostConfig.NetworkMode)
	}
	if r.NetworkSettings != nil {
		c.Networks = networkNames(r.NetworkSettings.Networks)
		if key := r.NetworkSettings.SandboxKey; filepath.IsAbs(key) && len(key) < unix.PathMax {
			c.Sandbox = key
		}
	}
	if r.State != nil {
		// A container that waits to be restarted is "running" without a process.
		c.Running, c.Pid = r.State.Running && r.State.Pid > 0, r.State.Pid
	}
	return c
}

func networkNames(networks map[string]*network.EndpointSettings) []string {
	return slices.Sorted(maps.Keys(networks))
}
