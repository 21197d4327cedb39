// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"weir/internal/base/command"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/announce"
	"weir/internal/cluster/migrate/process"
	"weir/internal/cluster/migrate/remains"
	"weir/internal/cluster/move"
)

// clearTimeout bounds how long it may take to tidy up after a dump or a restore that failed.
const clearTimeout = 20 * time.Second

// Podman gets noticeWithin to notice that a container has ended, and is asked at intervals of
// noticePoll.
const (
	noticeWithin = 2 * time.Second
	noticePoll   = 20 * time.Millisecond
)

// killed is the exit status of a process that SIGKILL has ended.
const killed = "137"

// exits returns the folder in which conmon writes the exit status of a container. containers.conf
// may name another than the usual one; podman tells it among its messages for debugging alone.
func (e *Engine) exits(ctx context.Context) string {
	folder := "/run/libpod"
	cmd := command.New(ctx, e.command[0], append(e.command[1:len(e.command):len(e.command)], "--log-level", "debug", "info")...)
	var messages strings.Builder
	cmd.Stderr = &messages
	if err := cmd.Run(); err == nil {
		if found := tmpDir.FindStringSubmatch(messages.String()); found != nil {
			folder = found[1]
		}
	}
	return filepath.Join(folder, "exits")
}

var tmpDir = regexp.MustCompile(`msg="Using tmp dir (/[^"]*)"`)

// idPattern is that of podman's ids.
var idPattern = regexp.MustCompile("^[0-9a-f]{64}$")

// preCopy writes the memory of the container, which runs on.
func (e *Engine) preCopy(ctx context.Context, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	return e.export(ctx, e.memory(o.Move), o, "--pre-checkpoint")
}

// export has podman write an archive, which has its name once it is whole.
func (e *Engine) export(ctx context.Context, file string, o migrate.MoveSpec, options ...string) (out migrate.StepOutcome, err error) {
	if info, err := os.Stat(file); err == nil {
		return migrate.StepOutcome{Raw: info.Size()}, nil
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
	return migrate.StepOutcome{Raw: info.Size()}, os.Rename(part, file)
}

// ahead says whether memory was copied ahead, and is here.
func (e *Engine) ahead(o migrate.MoveSpec) bool {
	_, err := os.Stat(e.memory(o.Move))
	return o.PreCopy && err == nil
}

// freeze writes the archive, which ends the container. One with a restart policy is removed then,
// since podman starts it anew when its host boots (podman-restart.service), beside the copy, and
// cannot take the policy from it. Its archive has all of it but its volumes, which stay.
func (e *Engine) freeze(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	var options []string
	if e.ahead(o) {
		options = append(options, "--with-previous")
	}
	out, err = e.export(ctx, e.archive(o.Move), o, options...)
	if err == nil && o.Container.Restart != "" && o.Container.Restart != "no" {
		err = e.remove(ctx, o.Container.ID)
	}
	return out, err
}

// forget removes what the source has of a container: itself, if it is still there, its volumes
// without a name, and the files of its move.
func (e *Engine) forget(ctx context.Context, o migrate.MoveSpec) error {
	errs := []error{e.remove(ctx, o.Container.ID, "-v")}
	for _, v := range o.Container.Volumes {
		if !idPattern.MatchString(v.Name) { // podman names them as it does containers
			continue
		}
		if _, err := e.run(ctx, "volume", "exists", "--", v.Name); err == nil {
			_, err = e.run(ctx, "volume", "rm", "--", v.Name)
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, e.tidy(o.Move))...)
}

func (e *Engine) restore(ctx context.Context, o migrate.MoveSpec, options ...string) error {
	args := append([]string{"container", "restore", "--import", e.archive(o.Move), "--file-locks"}, options...)
	if e.ahead(o) {
		args = append(args, "--import-previous", e.memory(o.Move))
	}
	if len(o.Container.Connections) > 0 && !o.CloseConnections {
		args = append(args, "--tcp-established")
	}
	out, err := e.run(ctx, args...)
	if err != nil {
		return errors.Join(err, e.endHalf(ctx, o))
	}
	if id := strings.TrimSpace(out); id != o.Container.ID { // that of the archive
		return errors.Join(&move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("the archive has container %.12s, not %.12s", id, o.Container.ID)}, e.remove(context.WithoutCancel(ctx), id, "-f", "-v", "-t", "0"))
	}
	return nil
}

// settle waits until no program is at work on an order: podman, the runtime, CRIU. When podman
// or its caller is killed, those below go on. What does not end in time is ended.
func (e *Engine) settle(ctx context.Context, o migrate.MoveSpec) error {
	if !idPattern.MatchString(o.Container.ID) {
		return noID(o)
	}
	finders := []func() []int{
		remains.With(e.archive(o.Move)), remains.With(e.memory(o.Move)), remains.On(o.Container.ID, remains.Checkpoint), remains.On(o.Container.ID, remains.Restore),
	}
	_, err := remains.End(ctx, func() (pids []int) {
		for _, find := range finders {
			pids = append(pids, find()...)
		}
		return pids
	})
	return err
}

// endHalf ends what a restore that failed has left of a container, also if the caller has given
// up. A container that podman calls running stays.
func (e *Engine) endHalf(ctx context.Context, o migrate.MoveSpec) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	id := o.Container.ID
	if err := e.settle(ctx, o); err != nil {
		return err
	}
	r, err := e.inspect(ctx, id)
	switch {
	case noContainer(err):
	case err != nil:
		return err
	case r.State.Running || r.State.Paused:
		return nil
	}
	// The id came by an order, and may be that of another engine's container.
	_, err = remains.Half(ctx, remains.Here, "libpod-"+id)
	runtime := cmp.Or(r.OCIRuntime, "runc")
	return errors.Join(err, remains.State(ctx, remains.Here, id, runtime, "/run/"+runtime))
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
func (e *Engine) thaw(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	if err := e.settle(ctx, o); err != nil {
		return out, err
	}
	if out.Note, err = e.clear(ctx, o.Container.ID); err != nil && !noContainer(err) {
		return out, err
	}
	r, err := e.settled(ctx, o.Container.ID)
	if err != nil && !noContainer(err) {
		return out, err
	}
	if err == nil && r.State.Running {
		return out, e.tidy(o.Move)
	}
	if _, statErr := os.Stat(e.archive(o.Move)); statErr != nil {
		if out.Note, err = e.startInPlace(ctx, r, o); err != nil {
			return out, err
		}
	} else {
		if err := e.remove(ctx, o.Container.ID); err != nil {
			return out, err
		}
		if err := e.restore(ctx, o, "--ignore-volumes"); err != nil { // they are here
			return out, err
		}
	}
	if note := e.announce(ctx, o.Container.ID); note != "" {
		out.Note = strings.TrimPrefix(out.Note+"; "+note, "; ")
	}
	return out, e.tidy(o.Move)
}

// settled returns podman's description of a container once it agrees with the container's first
// process. A dump that is whole ends the processes, and podman learns their end from the file that
// conmon writes. A podman that was killed may have taken the file away without noting down what it
// says: to every other podman the container runs for ever. Then the file is written again.
func (e *Engine) settled(ctx context.Context, id string) (r inspection, err error) {
	ctx, cancel := context.WithTimeout(ctx, clearTimeout)
	defer cancel()
	for began, told := time.Now(), false; ; {
		if r, err = e.inspect(ctx, id); err != nil || !r.State.Running || !process.Ending(r.State.Pid) {
			return r, err
		}
		if time.Since(began) > noticeWithin && !told {
			told = true
			if err := os.WriteFile(filepath.Join(e.exits(ctx), r.ID), []byte(killed), 0o600); err != nil {
				return r, fmt.Errorf("podman calls %s running, whose process %d has ended: %w", r.Name, r.State.Pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("podman calls %s running, whose process %d has ended: %w", r.Name, r.State.Pid, ctx.Err())
		case <-time.After(noticePoll):
		}
	}
}

// startInPlace starts a container of which no archive was made: from its checkpoint, if podman
// was killed when the container had been dumped, else with its files alone.
func (e *Engine) startInPlace(ctx context.Context, r inspection, o migrate.MoveSpec) (note string, err error) {
	why := "it has no checkpoint"
	if _, err := os.Stat(filepath.Join(r.StaticDir, "checkpoint", "inventory.img")); err == nil {
		if _, err := e.run(ctx, "container", "cleanup", "--", o.Container.ID); err != nil { // else it is not restored
			return "", err
		}
		args := []string{"container", "restore", "--file-locks"}
		if len(o.Container.Connections) > 0 && !o.CloseConnections {
			args = append(args, "--tcp-established")
		}
		if _, err = e.run(ctx, append(args, "--", o.Container.ID)...); err == nil {
			return "", nil
		}
		why = err.Error()
		if err := e.endHalf(ctx, o); err != nil {
			return "", err
		}
	}
	if _, err := e.run(ctx, "start", "--", o.Container.ID); err != nil {
		return "", err
	}
	return "started anew with its files, without its memory: " + why, nil
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
