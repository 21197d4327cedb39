// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// world is what the fake engines of a test share: who has which container, and
// whether it runs.
type world struct {
	mu   sync.Mutex
	has  map[string]map[string]bool // node, container, running
	fail map[move.Step]error        // a step that fails
	slow map[move.Step]chan struct{}
	hide map[string]chan struct{}              // containers that are not described before this is closed
	lack map[string][]migrate.PreflightFinding // what nodes lack for a container
	copy map[string]string                     // container, by move
	// stubborn are steps that go on when their caller has gone, until the gate opens.
	stubborn map[move.Step]chan struct{}
	// late are steps whose caller is told that they were cut off, and that are done all
	// the same once the gate opens.
	late    map[move.Step]chan struct{}
	brought map[string][]string // what has come for a move besides its copy
	kind    wire.EngineName     // of the engines, "" = docker
}

func newWorld() *world {
	return &world{copy: map[string]string{}, stubborn: map[move.Step]chan struct{}{}, late: map[move.Step]chan struct{}{}, brought: map[string][]string{}, has: map[string]map[string]bool{}, fail: map[move.Step]error{}, slow: map[move.Step]chan struct{}{}}
}

func (w *world) put(node, container string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has[node] == nil {
		w.has[node] = map[string]bool{}
	}
	w.has[node][container] = true
}

// where returns the nodes on which a container runs.
func (w *world) where(container string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []string
	for node, has := range w.has {
		if has[container] {
			list = append(list, node)
		}
	}
	slices.Sort(list)
	return list
}

// engine is a container engine without containers: it does what its name says in the
// world's books.
type engine struct {
	*world
	node string
}

func (e engine) Kind() wire.EngineName { return cmp.Or(e.kind, wire.EngineDocker) }
func (engine) Close() error            { return nil }

func (e engine) Facts(context.Context) (migrate.Facts, error) {
	return migrate.Facts{Node: e.node, Engine: "docker", EngineVersion: "26.1.5", Arch: "x86_64", Kernel: "6.18", Runtime: "runc",
		StorageDriver: "overlay2", Cgroups: "2", CRIU: "4.2.1", Checkpoints: true, FreeBytes: 1 << 40}, nil
}

func (e engine) Describe(ctx context.Context, name string) (migrate.Container, error) {
	e.mu.Lock()
	hidden := e.hide[name]
	e.mu.Unlock()
	if hidden != nil {
		select {
		case <-hidden:
		case <-ctx.Done():
			return migrate.Container{}, ctx.Err()
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	running, ok := e.has[e.node][name]
	if !ok {
		return migrate.Container{}, &move.Error{Code: move.CodeNoContainer, Msg: "no container " + name}
	}
	return migrate.Container{ID: "id-" + name, Name: name, Engine: "docker", Running: running, Image: "img", ImageID: "sha256:1"}, nil
}

func (e engine) Lacking(_ context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lack[o.Container.Name], nil
}

func (e engine) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	e.mu.Lock()
	gate, stubborn, late, failure := e.slow[step], e.stubborn[step], e.late[step], e.fail[step]
	e.mu.Unlock()
	if stubborn != nil {
		<-stubborn
	}
	if late != nil {
		<-ctx.Done()
		go func() { <-late; e.did(step, o) }()
		return migrate.StepOutcome{}, ctx.Err()
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return migrate.StepOutcome{}, ctx.Err()
		}
	}
	if failure != nil {
		return migrate.StepOutcome{}, failure
	}
	return e.did(step, o), nil
}

// did notes what a step has done.
func (e engine) did(step move.Step, o migrate.MoveSpec) migrate.StepOutcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.has[e.node] == nil {
		e.has[e.node] = map[string]bool{}
	}
	name := o.Container.Name
	switch step {
	case move.Commit:
		return migrate.StepOutcome{ImageID: "sha256:" + strings.Repeat("2", 64)}
	case move.Push:
		return migrate.StepOutcome{Digest: "sha256:" + strings.Repeat("3", 64)}
	case move.Freeze:
		e.has[e.node][name] = false
	case move.PullImage:
		e.brought[o.Move] = append(e.brought[o.Move], "pulled image")
	case move.Create:
		e.copy[o.Move] = name
	case move.Restore, move.Thaw:
		e.has[e.node][name] = true
	case move.Forget:
		delete(e.has[e.node], name)
	case move.Discard:
		delete(e.has[e.node], name)
		delete(e.copy, o.Move)
		delete(e.brought, o.Move)
	}
	return migrate.StepOutcome{}
}

func (e engine) Send(_ context.Context, p migrate.Part, _ migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	text := strings.Repeat("x", 1<<20)
	n, err := io.WriteString(w, p.String()+text)
	return migrate.StepOutcome{Bytes: int64(n)}, err
}

func (e engine) Receive(_ context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (migrate.StepOutcome, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return migrate.StepOutcome{}, err
	}
	if !strings.HasPrefix(string(text), p.String()) || len(text) != len(p.String())+1<<20 {
		return migrate.StepOutcome{}, fmt.Errorf("a part of %d bytes", len(text))
	}
	if p.Kind == migrate.PartImage {
		e.mu.Lock()
		e.brought[o.Move] = append(e.brought[o.Move], "image")
		e.mu.Unlock()
	}
	return migrate.StepOutcome{Bytes: int64(len(text))}, nil
}

func (e engine) Copy(_ context.Context, move string) (string, bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, ok := e.copy[move]
	if !ok {
		return "", false, nil
	}
	return "id-" + name, e.has[e.node][name], nil
}

// Hold and Release: a container of the world's does not care.
func (engine) Hold(context.Context, migrate.MoveSpec) error    { return nil }
func (engine) Release(context.Context, migrate.MoveSpec) error { return nil }
