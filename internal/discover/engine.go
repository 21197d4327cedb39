// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// containerInfo holds the properties of a container that discovery uses.
type containerInfo struct {
	ID       string
	Name     string // without the leading slash
	Labels   map[string]string
	Baked    map[string]string // those of them that the image has with the same value
	Mode     string            // network mode: "bridge", "host", "none", "container:ID", a network's name
	Networks []string          // names of the networks it is in, sorted
	Running  bool              // has a process; also while paused
	Pid      int               // 0 in a summary
}

// engineEvent says that something about a container may have changed. What it
// changed to is always asked, never taken from the event.
type engineEvent struct {
	Container string // id
	Action    string // "start", "die", ..., and "connect", "disconnect" for networks
}

// engine is the interface to a container engine; tests put a fake in its place.
type engine interface {
	// Address for people, e.g. unix:///var/run/docker.sock.
	Address() string
	// Events returns the events from now on, until ctx ends or the error channel has a
	// value.
	Events(ctx context.Context) (<-chan engineEvent, <-chan error)
	// Running lists summaries of the containers that run.
	Running(ctx context.Context) ([]containerInfo, error)
	// Summary answers at once even while a container is being started, without
	// a process id. It and Inspect return errNoContainer for an unknown id.
	Summary(ctx context.Context, id string) (containerInfo, error)
	// Inspect answers in full, but waits for a start in progress.
	Inspect(ctx context.Context, id string) (containerInfo, error)
	Close() error
}

var errNoContainer = errors.New("no such container")

// dockerEngine is the real one.
type dockerEngine struct {
	client *client.Client
	images imageLabels
}

// newDockerEngine makes a client; it does not connect. An empty host means
// DOCKER_HOST, or the default socket.
func newDockerEngine(host string) (*dockerEngine, error) {
	options := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		options = append(options, client.WithHost(host))
	}
	c, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, err
	}
	return &dockerEngine{client: c}, nil
}

func (e *dockerEngine) Address() string { return e.client.DaemonHost() }

func (e *dockerEngine) Close() error { return e.client.Close() }

// interesting are the events that can change a list of workloads. The engine
// filters, so that health checks and the like never reach us. One that comes back from
// a checkpoint starts for Docker, and is restored for Podman.
var interesting = []string{"start", "restore", "die", "destroy", "rename", "connect", "disconnect"}

func (e *dockerEngine) Events(ctx context.Context) (<-chan engineEvent, <-chan error) {
	// An engine that came back may speak an older version than before.
	e.client.NegotiateAPIVersion(ctx)
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
	out, outErrs := make(chan engineEvent, 1024), make(chan error, 1)
	go func() {
		for {
			select {
			case m := <-messages:
				select {
				case out <- newEngineEvent(m):
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

func newEngineEvent(m events.Message) engineEvent {
	e := engineEvent{Container: m.Actor.ID, Action: string(m.Action)}
	if m.Type == events.NetworkEventType {
		e.Container = m.Actor.Attributes["container"]
	}
	return e
}

func (e *dockerEngine) Running(ctx context.Context) ([]containerInfo, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return nil, err
	}
	infos := make([]containerInfo, len(list))
	for i, s := range list {
		infos[i] = fromSummary(s)
		if err := e.bake(ctx, &infos[i], s.ImageID); err != nil {
			return nil, err
		}
	}
	return infos, nil
}

func (e *dockerEngine) Summary(ctx context.Context, id string) (containerInfo, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("id", id))})
	if err != nil {
		return containerInfo{}, err
	}
	for _, s := range list {
		if s.ID == id {
			c := fromSummary(s)
			return c, e.bake(ctx, &c, s.ImageID)
		}
	}
	return containerInfo{}, errNoContainer
}

func (e *dockerEngine) Inspect(ctx context.Context, id string) (containerInfo, error) {
	c, err := e.client.ContainerInspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return containerInfo{}, errNoContainer
	}
	if err != nil {
		return containerInfo{}, err
	}
	info := fromInspection(c)
	return info, e.bake(ctx, &info, c.Image)
}

func fromSummary(s container.Summary) containerInfo {
	c := containerInfo{
		ID:      s.ID,
		Labels:  s.Labels,
		Mode:    s.HostConfig.NetworkMode,
		Running: s.State == "running" || s.State == "paused",
	}
	// A container has further names where an old-style link gives it an alias:
	// "/web/db" beside "/db".
	for _, name := range s.Names {
		if name = strings.TrimPrefix(name, "/"); !strings.Contains(name, "/") {
			c.Name = name
		}
	}
	if s.NetworkSettings != nil {
		c.Networks = networkNames(s.NetworkSettings.Networks)
	}
	return c
}

func fromInspection(r container.InspectResponse) containerInfo {
	c := containerInfo{ID: r.ID, Name: strings.TrimPrefix(r.Name, "/")}
	if r.Config != nil {
		c.Labels = r.Config.Labels
	}
	if r.HostConfig != nil {
		c.Mode = string(r.HostConfig.NetworkMode)
	}
	if r.NetworkSettings != nil {
		c.Networks = networkNames(r.NetworkSettings.Networks)
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
