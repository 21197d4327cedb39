// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bytes"
	"fmt"

	"weir/internal/cluster/migrate"
	"weir/internal/core/bound"
)

// The most that a container is described by.
const (
	// MaxDescription bounds what a container is described by, in bytes of JSON. Most of a
	// long one is the environment and labels of the container.
	MaxDescription = bound.Description
	// MaxObjects bounds how many objects a description can have, before it is decoded: an
	// empty one of two bytes takes a hundred in memory.
	MaxObjects = 8192
)

// Lengths of the lists in a description. Volumes are the grant's to bound. Of sockets a
// target only asks whether there are any.
const (
	mostBinds    = 256
	mostNetworks = 64
	mostPorts    = 1024
	mostFindings = 64
	mostLabels   = 256 // of a volume
	mostVolumes  = 256
	mostSockets  = 16
)

// CheckLists refuses lists that no engine makes: a few bytes of JSON are some hundred in
// memory.
func CheckLists(o migrate.MoveSpec) error {
	c := o.Container
	for _, list := range []struct {
		name       string
		many, most int
	}{{"volumes", len(c.Volumes), mostVolumes}, {"binds", len(c.Binds), mostBinds}, {"networks", len(c.Networks), mostNetworks}, {"ports", len(c.Ports), mostPorts},
		{"obstacles", len(c.Obstacles), mostFindings}, {"connections", len(c.Connections), mostSockets}, {"bound", len(c.Bound), mostSockets}} {
		if list.many > list.most {
			return fmt.Errorf("container.%s: %d; a node takes at most %d", list.name, list.many, list.most)
		}
	}
	for _, v := range c.Volumes {
		if len(v.Labels) > mostLabels {
			return fmt.Errorf("labels of volume %.80q: %d; a node takes at most %d", v.Name, len(v.Labels), mostLabels)
		}
	}
	return nil
}

// Travelling returns an order as its target is shown it: of sockets, some.
func Travelling(o migrate.MoveSpec) migrate.MoveSpec {
	c := &o.Container
	c.Connections, c.Bound = c.Connections[:min(len(c.Connections), mostSockets)], c.Bound[:min(len(c.Bound), mostSockets)]
	return o
}

// Describable refuses at the source what no target takes.
func Describable(container string, text []byte) error {
	if len(text) > MaxDescription {
		return fmt.Errorf("the description of %s has %d bytes, and a node takes at most %d; start it with less environment and fewer labels", container, len(text), MaxDescription)
	}
	if n := bytes.Count(text, []byte("{")); n > MaxObjects {
		return fmt.Errorf("the description of %s has %d opening braces, and a node takes at most %d; start it with less environment and fewer labels", container, n, MaxObjects)
	}
	return bound.Lists("the description of "+container, text, bound.Values, bound.Values)
}

// Readable says why a description that has come is not decoded, or nil.
func Readable(text []byte) error {
	switch {
	case len(text) > MaxDescription:
		return fmt.Errorf("a description of more than %d bytes", MaxDescription)
	case bytes.Count(text, []byte("{")) > MaxObjects:
		return fmt.Errorf("a description with more than %d opening braces", MaxObjects)
	}
	return bound.Lists("a description", text, bound.Values, bound.Values)
}
