// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"os"

	"weir/internal/cluster/migrate"
)

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
	if _, err := e.run(ctx, append(append(args, options...), "--", o.Container.ID)...); err != nil {
		return out, err
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
	return err
}

// thaw brings the container back on this node. Its archive has all of it, so the old
// one may go first; if this is interrupted there, the next call goes on.
func (e *Engine) thaw(ctx context.Context, o migrate.Order) (out migrate.Outcome, err error) {
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
	return out, e.tidy(o.Move)
}
