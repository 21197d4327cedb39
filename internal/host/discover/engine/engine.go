// SPDX-License-Identifier: Apache-2.0

// Package engine asks a container engine about its containers, as far as discovery has to
// know: what happens to them, which run, and what one of them is.
//
// The engine is asked in three ways, which differ in what they cost:
//
//	Running   all containers that run, when a session begins
//	Summary   one container without its process; the engine answers at once, also
//	          while it starts the container
//	Inspect   the truth about one container; the engine answers once a start in
//	          progress has ended
//
// An Event says only that something may have changed. What it changed to is always
// asked, never taken from the event, so a lost or repeated event does no harm.
//
// Example: Docker reports the event {ID, "connect"} before a container's program runs.
// Summary(ID) then gives its name and labels, and Inspect(ID) after the event "start" its
// process.
//
// The engine gives a container the labels of its image. They are told apart here
// (Container.Baked), because an image must not decide what only its user may.
//
// What it does not do: look at devices, namespaces or /proc, or remember containers.
package engine

import (
	"context"
	"errors"
)

// Container holds the properties of a container that discovery uses.
type Container struct {
	ID       string
	Name     string            // without the leading slash
	Labels   map[string]string // those that matter to Weir
	Oversize map[string]int    // bytes of those of them that are too long, of which Labels has the beginning
	Baked    map[string]string // those of them that the image has with the same value
	Mode     string            // network mode: "bridge", "host", "none", "container:ID", a network's name
	Networks []string          // names of the networks it is in, sorted
	Running  bool              // has a process; also while paused
	Pid      int               // 0 in a summary
	Sandbox  string            // file of its network namespace, as the engine sees it; "" in a summary, or if there is none
}

// Event says that something about a container may have changed.
type Event struct {
	Container string // id
	Action    string // "start", "die", ..., and "connect", "disconnect" for networks
}

// Engine is a container engine. Tests put a fake in the place of Docker.
type Engine interface {
	// Address for people, e.g. unix:///var/run/docker.sock.
	Address() string
	// Process returns the process at the other end of the socket, 0 if that is not known: the
	// engine, or the systemd that listens for it. Both see the files that the engine names.
	Process() int
	// Events returns the events from now on, until ctx ends or the error channel has a
	// value.
	Events(ctx context.Context) (<-chan Event, <-chan error)
	// Running lists summaries of the containers that run.
	Running(ctx context.Context) ([]Container, error)
	// Summary answers at once even while a container is being started, without
	// a process id. It and Inspect return ErrNoContainer for an unknown id.
	Summary(ctx context.Context, id string) (Container, error)
	// Inspect answers in full, but waits for a start in progress.
	Inspect(ctx context.Context, id string) (Container, error)
	Close() error
}

// ErrNoContainer is the answer about an id that the engine does not know.
var ErrNoContainer = errors.New("no such container")

// Project returns the container's compose project. A label that comes with the image does
// not count: with it an image could join any group.
func (c Container) Project() string {
	if _, baked := c.Baked[ComposeProject]; baked {
		return ""
	}
	return c.Labels[ComposeProject]
}

// ComposeProject is the label by which "docker compose" says what belongs together.
const ComposeProject = "com.docker.compose.project"
