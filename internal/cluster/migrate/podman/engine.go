// SPDX-License-Identifier: Apache-2.0

// Package podman is Podman as a migrate.Engine: "podman container checkpoint --export"
// puts memory, changed files, volumes and configuration into one archive, and "restore
// --import" makes the same container of it, so there is one part that travels
// (migrate.ApproachBundle) and nothing is created beforehand.
//
// Both nodes need the same runtime, the same image (the same id: it is sent if it is
// missing), and the same --root and --runroot, whose paths the archive has.
//
// What it does not do: rootless containers, pods.
package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"weir/internal/base/command"
	"weir/internal/base/safepath"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// Engine is the Podman of this machine.
type Engine struct {
	command []string // e.g. "podman"
	dir     string   // of archives
	rules   *accept.Rules
}

// Guard makes this the engine of a node that takes containers from other nodes: of a
// configuration it accepts what rules name and no more. Call it before any order.
func (e *Engine) Guard(rules accept.Rules) { e.rules = &rules }

// Open returns an engine that is called by a command, with options if need be, and
// keeps archives in dir.
func Open(dir string, command ...string) (*Engine, error) {
	if len(command) == 0 {
		command = []string{"podman"}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, fmt.Errorf("podman: %w", err)
	}
	return &Engine{command: command, dir: dir}, safepath.Folder(dir, 0o700)
}

// Kind implements migrate.Engine.
func (e *Engine) Kind() wire.EngineName { return wire.EnginePodman }

// Close does nothing: there is no connection.
func (e *Engine) Close() error { return nil }

// run runs a command of podman's and returns what it printed.
func (e *Engine) run(ctx context.Context, args ...string) (string, error) {
	cmd := command.New(ctx, e.command[0], append(e.command[1:len(e.command):len(e.command)], args...)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	switch {
	case err == nil:
		return out.String(), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(errs.String(), "Error: ", "")), " ")
	code := move.CodeFailed
	if strings.Contains(text, "no such container") || strings.Contains(text, "no container with") {
		code = move.CodeNoContainer
	}
	return "", &move.Error{Code: code, Msg: "podman " + args[0] + ": " + text}
}

func noContainer(err error) bool {
	return move.CodeOf(err) == move.CodeNoContainer
}

func (e *Engine) archive(move string) string { return filepath.Join(e.dir, move+".tar") }

// memory returns the path of the memory that was copied ahead.
func (e *Engine) memory(move string) string { return filepath.Join(e.dir, move+".memory") }

// arrived returns the file that says which container an archive from elsewhere has.
func (e *Engine) arrived(move string) string { return filepath.Join(e.dir, move+".id") }

// Copy finds the container that came by a migration.
func (e *Engine) Copy(ctx context.Context, move string) (id string, running bool, err error) {
	text, err := safepath.ReadFile(e.arrived(move))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	r, err := e.inspect(ctx, string(text))
	if noContainer(err) {
		return "", false, nil
	}
	return r.ID, r.State.Running || r.State.Paused, err
}

// Hold implements migrate.Engine.
func (e *Engine) Hold(ctx context.Context, o migrate.MoveSpec) error {
	return e.whenRestored(ctx, o, false, "pause")
}

// Release implements migrate.Engine.
func (e *Engine) Release(ctx context.Context, o migrate.MoveSpec) error {
	return e.whenRestored(ctx, o, true, "unpause")
}

// whenRestored does something with a copy that has processes, if it is paused or not.
func (e *Engine) whenRestored(ctx context.Context, o migrate.MoveSpec, paused bool, do string) error {
	id, running, err := e.Copy(ctx, o.Move)
	if err == nil && !running {
		err = &move.Error{Code: move.CodeGone, Msg: fmt.Sprintf("the copy of %s is no more", o.Container.Name)}
	}
	if err != nil {
		return err
	}
	r, err := e.inspect(ctx, id)
	if err == nil && r.State.Paused == paused {
		_, err = e.run(ctx, do, "--", id)
	}
	return err
}

// Do takes one step.
func (e *Engine) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	switch step {
	case move.PullImage:
		if _, err := e.run(ctx, "image", "exists", "--", o.Container.ImageID); err != nil {
			return out, &move.Error{Code: move.CodeNoImage, Msg: "image " + o.Container.Image + " is not here"}
		}
		out.Note = "already there"
	case move.PreCopy:
		return e.preCopy(ctx, o)
	case move.Freeze:
		return e.freeze(ctx, o)
	case move.Restore:
		if err := e.expected(o); err != nil {
			return out, err
		}
		_, running, err := e.Copy(ctx, o.Move)
		if err != nil || running {
			return out, err
		}
		return out, e.restore(ctx, o)
	case move.Confirm:
		id, _, copyErr := e.Copy(ctx, o.Move)
		if copyErr == nil && id != "" {
			out.Note = e.announce(ctx, id)
		}
		err = e.tidy(o.Move)
	case move.Forget:
		err = e.forget(ctx, o)
	case move.Discard:
		err = e.discard(ctx, o)
	case move.Thaw:
		return e.thaw(ctx, o)
	default:
		err = &move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("podman takes no step %s; leave --approach and --registry out", step)}
	}
	return out, err
}

// discard removes the copy, if it has come that far, and what a restore has left of it. The
// files go last: a discard that fails is made again.
func (e *Engine) discard(ctx context.Context, o migrate.MoveSpec) error {
	if _, err := os.Stat(e.arrived(o.Move)); errors.Is(err, fs.ErrNotExist) {
		return e.tidy(o.Move)
	}
	if err := e.expected(o); err != nil {
		return err
	}
	if err := e.settle(ctx, o); err != nil {
		return err
	}
	id, _, err := e.Copy(ctx, o.Move)
	if err == nil && id != "" {
		err = e.remove(ctx, id, "-f", "-v", "-t", "0")
	}
	if err == nil {
		err = e.endHalf(ctx, o)
	}
	if err != nil {
		return err
	}
	return e.tidy(o.Move)
}

func (e *Engine) tidy(move string) (err error) {
	for _, file := range []string{e.archive(move), e.archive(move) + ".part", e.memory(move), e.memory(move) + ".part", e.arrived(move)} {
		if removeErr := os.Remove(file); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// remove removes a container that is there.
func (e *Engine) remove(ctx context.Context, id string, flags ...string) error {
	_, err := e.run(ctx, append(append([]string{"rm"}, flags...), "--", id)...)
	if noContainer(err) {
		return nil
	}
	return err
}
