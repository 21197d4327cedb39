// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"weir/internal/cluster/migrate/announce"
	"weir/internal/cluster/migrate/remains"
)

// clear takes away what a dump that was killed has left in a container that runs: CRIU
// itself, its rules, its freeze. The note says what was found, "" for nothing.
func (e *Engine) clear(ctx context.Context, f folder, r container.InspectResponse) (note string, err error) {
	if _, err := remains.End(ctx, remains.At(f.own)); err != nil {
		return "", err
	}
	if !alive(r.State) || r.State.Paused {
		return "", nil
	}
	taken, err := remains.Clear(ctx, f.remains(), r.State.Pid, r.ID)
	return remains.Note(taken), err
}

// endHalf ends what a restore that failed has left of a container's processes.
func endHalf(ctx context.Context, engine *client.Client, p place, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	r, err := engine.ContainerInspect(ctx, id)
	switch {
	case errdefs.IsNotFound(err): // it is removed: nothing of it may run
	case err != nil:
		return err
	case r.State.Running:
		return nil // the answer was lost, or the caller has given up
	}
	_, err = remains.Half(ctx, p.remains(), id)
	return errors.Join(err, remains.State(ctx, p.remains(), id, "runc"))
}

func (p place) remains() remains.EngineNamespace {
	return remains.EngineNamespace{Root: p.file("/"), Command: p.command}
}

// announced tells the networks of a container that runs here now where its addresses are. That
// it could not is no reason to give up a move; the note says it, "" for nothing.
func announced(ctx context.Context, engine *client.Client, find func() (place, error), id string) (note string) {
	p, err := find()
	if err == nil {
		var r container.InspectResponse
		if r, err = engine.ContainerInspect(ctx, id); err == nil && r.State.Pid > 0 {
			err = announce.Addresses(r.State.Pid, p.pid)
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
