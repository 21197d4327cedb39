// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/daemon"
	"weir/internal/cluster/migrate/pack"
	"weir/internal/cluster/migrate/process"
	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/cluster/migrate/remains"
)

const (
	endTimeout   = 20 * time.Second // for Docker to notice that a container has ended
	clearTimeout = 20 * time.Second
	thawAttempts = 6
	thawPause    = 500 * time.Millisecond // after which containerd has forgotten a failed restore
	killTime     = time.Second            // in which a process that CRIU has killed ends
	killPoll     = 10 * time.Millisecond
)

// smallImage is up to which size, in bytes, a file of a checkpoint takes Docker's way
// when it is restored; larger ones are linked to.
const smallImage = 32 << 10

// upwards leads to the root of the daemon's file system from wherever containerd puts
// a link. An absolute link would not: when CRIU follows it, its own root is the
// container's already, but its folder is still one of the daemon's.
var upwards = strings.Repeat("../", 32)

// freeze dumps the container, which ends it, and sees to it that Docker does not start
// it again.
func (e *Engine) freeze(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	id := o.Container.ID
	f, err := e.folder(ctx, id, o.Move)
	if err != nil {
		return out, err
	}
	r, err := e.client.ContainerInspect(ctx, id)
	if err != nil {
		return out, err
	}
	if !alive(r.State) {
		if f.complete() {
			return out, nil
		}
		return out, refused("container %s does not run any more", o.Container.Name)
	}
	if _, err := e.clear(ctx, f, r); err != nil {
		return out, err
	}
	// What the pre-flight saw may have changed. After this nothing is named beforehand.
	if list, err := unmovable(ctx, e.client, f.place, r); err != nil || len(list) > 0 {
		return out, errors.Join(migrate.Refusal(list), err)
	}
	if err := e.setRestart(ctx, id, container.RestartPolicy{Name: container.RestartPolicyDisabled}); err != nil {
		return out, err
	}
	if err := e.dump(ctx, f, r.State.Pid, o); err != nil {
		if f.dumped() && ends(r.State) {
			return out, err // the container goes back from it
		}
		return out, errors.Join(err, f.remove())
	}
	// Docker takes a moment to notice; the files to send are whole by now.
	return migrate.StepOutcome{Raw: process.FolderSize(f.file(f.images))}, f.setComplete()
}

// alive says whether a container's first process is there, whatever Docker has
// noticed.
func alive(s *container.State) bool {
	if !s.Running || s.Pid == 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid))
	if err != nil {
		return false
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(fields, "Z") && !strings.HasPrefix(fields, "X")
}

// ends says whether a container's first process ends in these moments. CRIU kills it when all is
// written, and a kill takes effect when what CRIU froze runs again.
func ends(s *container.State) bool {
	for deadline := time.Now().Add(killTime); alive(s); time.Sleep(killPoll) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// settled returns a container once Docker has noticed what became of its process.
func (e *Engine) settled(ctx context.Context, id string) (container.InspectResponse, error) {
	r, err := e.client.ContainerInspect(ctx, id)
	if err == nil && r.State.Running && !alive(r.State) {
		if err = e.waitEnd(ctx, id); err == nil {
			r, err = e.client.ContainerInspect(ctx, id)
		}
	}
	return r, err
}

// preCopy writes down the memory of a container that goes on. From then on the kernel
// remembers which pages change.
func (e *Engine) preCopy(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	f, err := e.folder(ctx, o.Container.ID, o.Move)
	if err != nil {
		return out, err
	}
	r, err := e.settled(ctx, o.Container.ID)
	if err != nil {
		return out, err
	}
	if !alive(r.State) {
		return out, refused("container %s does not run any more", o.Container.Name)
	}
	if err := os.RemoveAll(f.file(f.before)); err != nil {
		return out, err
	}
	if err := e.checkpoint(ctx, f, r.State.Pid, o, f.before, "--pre-dump"); err != nil {
		return out, errors.Join(err, os.RemoveAll(f.file(f.before)))
	}
	return migrate.StepOutcome{Raw: process.FolderSize(f.file(f.before))}, nil
}

// dump has the container's own runtime write its checkpoint.
func (e *Engine) dump(ctx context.Context, f folder, init int, o migrate.MoveSpec) error {
	var more []string
	if _, err := os.Stat(f.file(f.before)); err == nil {
		more = []string{"--parent-path", "../" + beforeDir}
	}
	return e.checkpoint(ctx, f, init, o, f.images, more...)
}

func (e *Engine) checkpoint(ctx context.Context, f folder, init int, o migrate.MoveSpec, to string, more ...string) error {
	s, err := daemon.ShimOf(f.file, init)
	if err != nil {
		return err
	}
	work := filepath.Join(f.own, "work")
	for _, dir := range []string{to, work} {
		if err := os.MkdirAll(f.file(dir), 0o700); err != nil {
			return err
		}
	}
	args := append([]string{s.Runtime, "--root", s.Root, "checkpoint", "--image-path", to, "--work-path", work, "--file-locks"}, more...)
	if len(o.Container.Connections) > 0 {
		args = append(args, "--tcp-established")
	}
	if _, err := daemon.Output(f.command(ctx, append(args, o.Container.ID)...)); err != nil {
		return e.notDumped(ctx, f, init, o, err)
	}
	return os.RemoveAll(f.file(work))
}

// notDumped says why a dump has failed, once nothing of it is left in the container.
func (e *Engine) notDumped(ctx context.Context, f folder, init int, o migrate.MoveSpec, err error) error {
	if why := process.LastError(f.file(filepath.Join(f.own, "work", "dump.log"))); why != "" {
		if strings.Contains(why, "proto 262") {
			why += " (a socket of MPTCP; start a Go program with GODEBUG=multipathtcp=0)"
		}
		err = failed("CRIU cannot dump %s: %s", o.Container.Name, why)
	}
	// Also if the caller has given up: the container is cut off otherwise.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTimeout)
	defer cancel()
	r := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{ID: o.Container.ID, State: &container.State{Running: true, Pid: init}}}
	_, clearErr := e.clear(ctx, f, r)
	return errors.Join(err, clearErr)
}

func (e *Engine) setRestart(ctx context.Context, id string, policy container.RestartPolicy) error {
	_, err := e.client.ContainerUpdate(ctx, id, container.UpdateConfig{RestartPolicy: policy})
	return err
}

// giveRestart gives a container the policy that it had when it was described.
func (e *Engine) giveRestart(ctx context.Context, id string, o migrate.MoveSpec) error {
	c, err := configOf(o)
	if err != nil {
		return err
	}
	return e.setRestart(ctx, id, c.Inspect.HostConfig.RestartPolicy)
}

func configOf(o migrate.MoveSpec) (c config, err error) {
	if err = json.Unmarshal(o.Container.Config, &c); err == nil && (c.Inspect.Config == nil || c.Inspect.ContainerJSONBase == nil || c.Inspect.HostConfig == nil) {
		err = refused("the order describes no Docker container")
	}
	return c, err
}

func (e *Engine) waitEnd(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	ended, errs := e.client.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return nil
	case err := <-errs:
		return fmt.Errorf("container %.12s was dumped, and Docker has not noticed its end: %w", id, err)
	}
}

// thaw brings the container back on this node: from its checkpoint, or, if there is
// none that can be restored, with its files alone.
func (e *Engine) thaw(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	id := o.Container.ID
	f, err := e.folder(ctx, id, o.Move)
	if err != nil {
		return out, err
	}
	if _, err := remains.End(ctx, remains.At(f.own)); err != nil {
		return out, err
	}
	r, err := e.settled(ctx, id)
	if err != nil {
		return out, err
	}
	if out.Note, err = e.clear(ctx, f, r); err != nil {
		return out, err
	}
	if !r.State.Running {
		if out.Note, err = e.start(ctx, id, o.Move); err != nil {
			return out, err
		}
		if note := announced(ctx, e.client, e.place, id); note != "" {
			out.Note = strings.TrimPrefix(out.Note+"; "+note, "; ")
		}
	} else if r.State.Paused {
		if err := e.client.ContainerUnpause(ctx, id); err != nil {
			return out, err
		}
	}
	if err := e.giveRestart(ctx, id, o); err != nil {
		return out, err
	}
	e.removeImage(ctx, committed(o))
	e.untagPassing(ctx, o)
	return out, e.tidy(ctx, id, o.Move)
}

// start restores a container in place, with patience: containerd takes a moment to
// forget what failed before.
func (e *Engine) start(ctx context.Context, id, move string) (note string, err error) {
	f, err := e.folder(ctx, id, move)
	if err != nil {
		return "", err
	}
	why := "it has no checkpoint"
	if f.complete() || f.dumped() {
		for range thawAttempts {
			if err = f.offer(); err != nil {
				return "", err
			}
			if err = e.client.ContainerStart(ctx, id, container.StartOptions{CheckpointID: f.name}); err == nil {
				return "", nil
			}
			why = err.Error()
			if r, inspectErr := e.client.ContainerInspect(ctx, id); inspectErr == nil && r.State.Running {
				return "", nil
			}
			if err := endHalf(ctx, e.client, f.place, id); err != nil {
				return "", err
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(thawPause):
			}
		}
	}
	if err := e.client.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return "", err
	}
	return "started anew with its files, without its memory: " + why, nil
}

// commit makes an image of the container, whose last layer is what it has changed.
func (e *Engine) commit(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	made, err := e.client.ContainerCommit(ctx, o.Container.ID, container.CommitOptions{Reference: committed(o)})
	return migrate.StepOutcome{Raw: o.Container.LayerBytes, ImageID: made.ID}, err
}

func (e *Engine) push(ctx context.Context, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	return e.pushRef(ctx, committed(o), o.Login)
}

// pushImage brings the container's image into the registry. Layers that are there
// are not sent.
func (e *Engine) pushImage(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	return e.pushAs(ctx, base(o), o)
}

// pushAs pushes the container's image under a name.
func (e *Engine) pushAs(ctx context.Context, ref string, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	// Also after a failure: an engine whose disk is full remembers the name all the same.
	defer e.untag(ctx, ref)
	if err := e.client.ImageTag(ctx, o.Container.ImageID, ref); err != nil {
		return out, err
	}
	return e.pushRef(ctx, ref, o.Login)
}

// forget removes the container, which lives elsewhere now, and its volumes.
func (e *Engine) forget(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	r, err := e.settled(ctx, o.Container.ID)
	switch {
	case errdefs.IsNotFound(err):
	case err != nil:
		return out, err
	case r.State.Running:
		return out, refused("container %s runs here", o.Container.Name)
	default:
		err := e.client.ContainerRemove(ctx, o.Container.ID, container.RemoveOptions{RemoveVolumes: !o.KeepVolumes})
		if err != nil && !errdefs.IsNotFound(err) {
			return out, err
		}
	}
	if !o.KeepVolumes {
		for _, v := range o.Container.Volumes {
			err := e.client.VolumeRemove(ctx, v.Name, false)
			if err != nil && !errdefs.IsNotFound(err) {
				out.Note = strings.TrimPrefix(out.Note+"; volume "+v.Name+" stays: "+err.Error(), "; ")
			}
		}
	}
	e.removeImage(ctx, committed(o))
	e.untagPassing(ctx, o)
	if strings.Contains(o.Container.Image, access.MoveRepository+":") {
		e.removeImage(ctx, o.Container.Image) // of its last journey
	}
	if image, err := e.client.ImageInspect(ctx, o.Container.ImageID); err == nil && strings.HasPrefix(o.Container.Image, "sha256:") && len(image.RepoTags) == 0 {
		e.removeImage(ctx, o.Container.ImageID) // came here by a journey, without a name
	}
	return out, nil
}

// Send writes a part of a frozen container.
func (e *Engine) Send(ctx context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	size, err := e.send(ctx, p, o, w)
	return migrate.StepOutcome{Bytes: size.Packed, Raw: size.Raw}, definite(ctx, err)
}

func (e *Engine) send(ctx context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (pack.StreamSize, error) {
	id := o.Container.ID
	f, err := e.folder(ctx, id, o.Move)
	if err != nil {
		return pack.StreamSize{}, err
	}
	switch p.Kind {
	case migrate.PartImage:
		archive, err := e.client.ImageSave(ctx, []string{o.Container.ImageID}) // by its names the target has others
		return copyArchive(w, archive, err)
	case migrate.PartExport:
		archive, err := e.client.ContainerExport(ctx, id)
		return copyArchive(w, archive, err)
	case migrate.PartCheckpoint:
		if !f.complete() {
			return pack.StreamSize{}, failed("container %s has no checkpoint", o.Container.Name)
		}
		return pack.Write(w, f.file(f.images))
	case migrate.PartMemory:
		return pack.Write(w, f.file(f.before))
	case migrate.PartLayer, migrate.PartVolume:
		// The engine is not asked: it is busy with the container's end for a moment,
		// and does not answer about it meanwhile.
		c, err := configOf(o)
		if err != nil {
			return pack.StreamSize{}, err
		}
		dir, err := c.folderOf(p)
		if err != nil {
			return pack.StreamSize{}, err
		}
		return pack.Write(w, f.file(dir))
	}
	return pack.StreamSize{}, refused("a Docker container has no part %s", p)
}

func copyArchive(w io.Writer, archive io.ReadCloser, err error) (pack.StreamSize, error) {
	if err != nil {
		return pack.StreamSize{}, err
	}
	defer archive.Close()
	return pack.Copy(w, archive)
}

// folderOf returns the folder that keeps a part of the container, a path of the daemon's.
func (c config) folderOf(p migrate.Part) (string, error) {
	if p.Kind == migrate.PartLayer {
		return upperDir(c.Inspect)
	}
	for _, m := range c.Inspect.Mounts {
		if m.Type == mount.TypeVolume && m.Name == p.Name {
			return m.Source, nil
		}
	}
	return "", refused("container %s has no volume %s", c.Inspect.Name, p.Name)
}

// upperDir returns the folder of a container's own layer, a path of the daemon's.
func upperDir(r container.InspectResponse) (string, error) {
	upper := r.GraphDriver.Data["UpperDir"]
	if upper == "" {
		return "", refused("the storage driver %s keeps no folder for a container's own layer; use --approach commit", r.GraphDriver.Name)
	}
	return upper, nil
}
