// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/announce"
	"weir/internal/cluster/migrate/remains"
)

// clearTimeout bounds how long it may take to tidy up after a dump or a restore that failed.
const clearTimeout = 20 * time.Second

// preCopy writes the memory of the container, which runs on.
func (e *Engine) preCopy(ctx context.Context, o migrate.Order) (migrate.Outcome, error) {
	return e.export(ctx, e.memory(o.Move), o, "--pre-checkpoint")
}

// export has podman write an archive, which has its name once it is whole.
func (e *Engine) export(ctx context.Context, file string, o migrate.Order, options ...string) (out migrate.Outcome, err error) {
	if info, err := os.Stat(file); err == nil {
		return migrate.Outcome{Raw: info.Size()}, nil
	}
	part := file + ".part"
	args := []string{"container", "checkpoint", "--export", part, "--compress", "none", "--file-locks"}
	if len(o.Container.Connections) > 0 && !o.CloseConnections {
		args = append(args, "--tcp-established")
	}
	if _, err := e.clear(ctx, o.Container.ID); err != nil {
		return out, err
	}
	// What the pre-flight saw may have changed. After this nothing is named beforehand.
	if r, err := e.inspect(ctx, o.Container.ID); err != nil {
		return out, err
	} else if list := e.unmovable(ctx, r); r.State.Pid > 0 && len(list) > 0 {
		return out, migrate.Refusal(list)
	}
	if _, err := e.run(ctx, append(append(args, options...), "--", o.Container.ID)...); err != nil {
		_, clearErr := e.clear(ctx, o.Container.ID)
		return out, errors.Join(err, clearErr)
	}
	info, err := os.Stat(part)
	if err != nil {
		return out, err
	}
	return migrate.Outcome{Raw: info.Size()}, os.Rename(part, file)
}

// ahead says whether memory was copied ahead, and is here.
func (e *Engine) ahead(o migrate.Order) bool {
	_, err := os.Stat(e.memory(o.Move))
	return o.PreCopy && err == nil
}

// freeze writes the archive, which ends the container.
func (e *Engine) freeze(ctx context.Context, o migrate.Order) (out migrate.Outcome, err error) {
	if !e.ahead(o) {
		return e.export(ctx, e.archive(o.Move), o)
	}
	return e.export(ctx, e.archive(o.Move), o, "--with-previous")
}

func (e *Engine) restore(ctx context.Context, o migrate.Order) error {
	args := []string{"container", "restore", "--import", e.archive(o.Move), "--file-locks"}
	if e.ahead(o) {
		args = append(args, "--import-previous", e.memory(o.Move))
	}
	if len(o.Container.Connections) > 0 && !o.CloseConnections {
		args = append(args, "--tcp-established")
	}
	_, err := e.run(ctx, args...)
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	if r, inspectErr := e.inspect(ctx, o.Container.ID); noContainer(inspectErr) || inspectErr == nil && !r.State.Running {
		_, halfErr := remains.Half(ctx, remains.Here, o.Container.ID)
		err = errors.Join(err, halfErr)
	}
	return err
}

// clear takes away what a dump that was killed has left in a container that runs: CRIU itself,
// its rules, its freeze. Also if the caller has given up: the container is cut off otherwise.
// The note says what was found, "" for nothing.
func (e *Engine) clear(ctx context.Context, id string) (note string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	if _, err := remains.End(ctx, remains.On(id, remains.Checkpoint)); err != nil {
		return "", err
	}
	r, err := e.inspect(ctx, id)
	if err != nil || !r.State.Running || r.State.Paused || r.State.Pid == 0 {
		return "", err
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", r.State.Pid)); err != nil {
		return "", nil // podman has not noticed its end yet
	}
	taken, err := remains.Clear(ctx, remains.Here, r.State.Pid, id)
	return remains.Note(taken), err
}

// thaw brings the container back on this node. Its archive has all of it, so the old
// one may go first; if this is interrupted there, the next call goes on.
func (e *Engine) thaw(ctx context.Context, o migrate.Order) (out migrate.Outcome, err error) {
	if out.Note, err = e.clear(ctx, o.Container.ID); err != nil && !noContainer(err) {
		return out, err
	}
	r, err := e.inspect(ctx, o.Container.ID)
	if err != nil && !noContainer(err) {
		return out, err
	}
	if err == nil && r.State.Running {
		return out, e.tidy(o.Move)
	}
	if _, statErr := os.Stat(e.archive(o.Move)); statErr != nil {
		out.Note = "started anew with its files, without its memory: it has no checkpoint"
		_, err = e.run(ctx, "start", "--", o.Container.ID)
		return out, err
	}
	if err := e.remove(ctx, o.Container.ID); err != nil {
		return out, err
	}
	if err := e.restore(ctx, o); err != nil {
		return out, err
	}
	out.Note = e.announce(ctx, o.Container.ID)
	return out, e.tidy(o.Move)
}

// announce tells the networks of a container that runs here now where its addresses are. That
// it could not is no reason to give up a move; the note says it, "" for nothing.
func (e *Engine) announce(ctx context.Context, id string) (note string) {
	r, err := e.inspect(ctx, id)
	if err == nil && r.State.Pid > 0 {
		err = announce.Addresses(r.State.Pid, os.Getpid())
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
