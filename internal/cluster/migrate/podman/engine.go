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
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/pack"
	"weir/internal/cluster/migrate/process"
)

// Engine is the Podman of this machine.
type Engine struct {
	command []string // e.g. "podman"
	dir     string   // of archives
	rules   *migrate.Accept
}

// Guard makes this the engine of a node that takes containers from other nodes: of a
// configuration it accepts what rules name and no more. Call it before any order.
func (e *Engine) Guard(rules migrate.Accept) { e.rules = &rules }

// Open returns an engine that is called by a command, with options if need be, and
// keeps archives in dir.
func Open(dir string, command ...string) (*Engine, error) {
	if len(command) == 0 {
		command = []string{"podman"}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, fmt.Errorf("podman: %w", err)
	}
	return &Engine{command: command, dir: dir}, os.MkdirAll(dir, 0o700)
}

// Kind is "podman".
func (e *Engine) Kind() string { return "podman" }

// Close does nothing: there is no connection.
func (e *Engine) Close() error { return nil }

// run runs a command of podman's and returns what it printed.
func (e *Engine) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, e.command[0], append(e.command[1:len(e.command):len(e.command)], args...)...)
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
	code := migrate.CodeFailed
	if strings.Contains(text, "no such container") || strings.Contains(text, "no container with") {
		code = migrate.CodeNoContainer
	}
	return "", &migrate.Error{Code: code, Msg: "podman " + args[0] + ": " + text}
}

// Facts are what a pre-flight has to know.
func (e *Engine) Facts(ctx context.Context) (migrate.Facts, error) {
	var info struct {
		Host struct {
			Arch, Kernel, CgroupVersion string
			OCIRuntime                  struct{ Name string }
		}
		Store   struct{ GraphDriverName, GraphRoot string }
		Version struct{ Version string }
	}
	text, err := e.run(ctx, "info", "--format", "json")
	if err != nil {
		return migrate.Facts{}, err
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return migrate.Facts{}, fmt.Errorf("podman info: %w", err)
	}
	f := migrate.Facts{
		Engine: "podman", EngineVersion: info.Version.Version, Arch: info.Host.Arch, Kernel: info.Host.Kernel, CPUFlags: process.CPUFlags(),
		Runtime: info.Host.OCIRuntime.Name, StorageDriver: info.Store.GraphDriverName, Cgroups: strings.TrimPrefix(info.Host.CgroupVersion, "v"),
		Checkpoints: true, TCP: cmp.Or(process.TCPMode(process.RuncConf), "established"),
	}
	var st unix.Statfs_t
	if err := unix.Statfs(e.dir, &st); err == nil {
		f.FreeBytes = int64(st.Bavail) * st.Bsize
	}
	version, err := exec.CommandContext(ctx, "criu", "--version").Output()
	if err != nil {
		f.CRIUTrouble = err.Error()
		return f, nil
	}
	f.CRIU, _, _ = strings.Cut(strings.TrimPrefix(string(version), "Version: "), "\n")
	f.SoftDirty = exec.CommandContext(ctx, "criu", "check", "--feature", "mem_dirty_track").Run() == nil
	return f, nil
}

// inspection is what is needed of podman's description.
type inspection struct {
	ID        string `json:"Id"`
	Name      string
	Image     string // its id
	ImageName string
	State     struct {
		Running, Paused bool
		Pid             int
	}
	Mounts []struct{ Type, Name, Source, Destination, Driver string }
	Config struct {
		Hostname string
	}
	HostConfig struct {
		Privileged, AutoRemove bool
		Init                   bool
		NetworkMode            string
		RestartPolicy          struct{ Name string }
		Devices                []struct{ PathOnHost string }
		PortBindings           map[string][]struct{ HostIP, HostPort string } // by e.g. "80/tcp"
	}
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
	}
	GraphDriver struct{ Data struct{ UpperDir string } }
	Pod         string
}

func (e *Engine) inspect(ctx context.Context, name string) (r inspection, err error) {
	text, err := e.run(ctx, "container", "inspect", "--", name)
	if err != nil {
		return r, err
	}
	var list []inspection
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
		return r, fmt.Errorf("podman inspect %s: %d descriptions: %w", name, len(list), err)
	}
	return list[0], nil
}

// Describe finds a container.
func (e *Engine) Describe(ctx context.Context, name string) (migrate.Container, error) {
	r, err := e.inspect(ctx, name)
	if err != nil {
		return migrate.Container{}, err
	}
	c := migrate.Container{
		ID: r.ID, Name: r.Name, Engine: "podman", Running: r.State.Running, Paused: r.State.Paused, Pid: r.State.Pid,
		Image: r.ImageName, ImageID: r.Image, Restart: r.HostConfig.RestartPolicy.Name, Hostname: r.Config.Hostname,
		LayerBytes: process.FolderSize(r.GraphDriver.Data.UpperDir),
	}
	for _, m := range r.Mounts {
		switch m.Type {
		case "bind":
			info, err := os.Stat(m.Source)
			c.Binds = append(c.Binds, migrate.Bind{Source: m.Source, Destination: m.Destination, Dir: err == nil && info.IsDir()})
		case "volume":
			c.Volumes = append(c.Volumes, migrate.Volume{Name: m.Name, Driver: m.Driver, Destination: m.Destination, Bytes: process.FolderSize(m.Source)})
		}
	}
	for port, bindings := range r.HostConfig.PortBindings {
		_, protocol, _ := strings.Cut(port, "/")
		for _, b := range bindings {
			c.Ports = append(c.Ports, fmt.Sprintf("%s:%s/%s", b.HostIP, b.HostPort, protocol))
		}
	}
	for name, n := range r.NetworkSettings.Networks {
		if name == "none" || name == "host" {
			continue // no network of its own, which Podman 5 lists all the same
		}
		driver, err := e.run(ctx, "network", "inspect", "--format", "{{.Driver}}", "--", name)
		if err != nil {
			return c, err
		}
		// The archive has the address, and asks for the same.
		c.Networks = append(c.Networks, migrate.Network{Name: name, Driver: strings.TrimSpace(driver), IP: n.IPAddress, Fixed: true})
	}
	if c.Running && c.Pid > 0 {
		c.MemoryBytes = process.Memory(c.Pid)
		c.Connections, c.Bound = process.Sockets(c.Pid)
	}
	c.Obstacles = obstacles(r)
	return c, nil
}

func obstacles(r inspection) (list []migrate.Finding) {
	refuse := func(code, msg, remedy string) {
		list = append(list, migrate.Finding{Code: code, Refuses: true, Msg: msg, Remedy: remedy})
	}
	if r.HostConfig.Privileged {
		refuse("privileged", "it is privileged and may hold any device of its host", "start it without --privileged, with the --cap-add that it needs")
	}
	if r.HostConfig.AutoRemove {
		refuse("auto-remove", "it is removed when it stops (--rm), so nothing would be left to go back to", "start it without --rm")
	}
	if r.HostConfig.Init {
		refuse("init", "it has podman's own init, whose mount cannot be restored", "start it without --init, with an init in its image")
	}
	if r.Pod != "" {
		refuse("pod", "it is in the pod "+r.Pod, "start it outside of a pod")
	}
	for _, d := range r.HostConfig.Devices {
		refuse("device", "it has the host's device "+d.PathOnHost, "start it without --device")
	}
	return list
}

// Lacking says what this engine lacks as the target of an order.
func (e *Engine) Lacking(ctx context.Context, o migrate.Order) (list []migrate.Finding, err error) {
	_, err = e.inspect(ctx, o.Container.Name)
	switch {
	case err == nil:
		list = append(list, migrate.Finding{Code: "name-taken", Refuses: true, Msg: "a container " + o.Container.Name + " is there already", Remedy: "rename or remove it"})
	case !noContainer(err):
		return nil, err
	}
	for _, b := range o.Container.Binds {
		if _, err := os.Stat(b.Source); err != nil {
			list = append(list, migrate.Finding{Code: "bind-missing", Refuses: true, Msg: fmt.Sprintf("the path %s, mounted at %s, is missing", b.Source, b.Destination), Remedy: "make it there, with the same files (a shared file system), or use a volume"})
		}
	}
	for _, v := range o.Container.Volumes {
		if _, err := e.run(ctx, "volume", "exists", "--", v.Name); err == nil {
			list = append(list, migrate.Finding{Code: "volume-taken", Refuses: true, Msg: fmt.Sprintf("a volume %s is there already and may hold somebody's data", v.Name), Remedy: "remove or rename it: podman volume rm " + v.Name})
		}
	}
	for _, n := range o.Container.Networks {
		if _, err := e.run(ctx, "network", "exists", "--", n.Name); err != nil {
			list = append(list, migrate.Finding{Code: "network-missing", Refuses: true, Msg: fmt.Sprintf("network %s is missing", n.Name), Remedy: fmt.Sprintf("podman network create -d %s %s", n.Driver, n.Name)})
		}
	}
	return list, nil
}

func noContainer(err error) bool {
	var e *migrate.Error
	return errors.As(err, &e) && e.Code == migrate.CodeNoContainer
}

func (e *Engine) archive(move string) string { return filepath.Join(e.dir, move+".tar") }

// memory is what was copied ahead.
func (e *Engine) memory(move string) string { return filepath.Join(e.dir, move+".memory") }

// arrived is the file that says which container an archive from elsewhere has.
func (e *Engine) arrived(move string) string { return filepath.Join(e.dir, move+".id") }

// Copy finds the container that came by a migration.
func (e *Engine) Copy(ctx context.Context, move string) (id string, running bool, err error) {
	text, err := os.ReadFile(e.arrived(move))
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
func (e *Engine) Hold(ctx context.Context, o migrate.Order) error {
	return e.whenRestored(ctx, o, false, "pause")
}

// Release implements migrate.Engine.
func (e *Engine) Release(ctx context.Context, o migrate.Order) error {
	return e.whenRestored(ctx, o, true, "unpause")
}

// whenRestored does something with a copy that has processes, if it is paused or not.
func (e *Engine) whenRestored(ctx context.Context, o migrate.Order, paused bool, do string) error {
	id, running, err := e.Copy(ctx, o.Move)
	if err == nil && !running {
		err = &migrate.Error{Code: migrate.CodeGone, Msg: fmt.Sprintf("the copy of %s is no more", o.Container.Name)}
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
func (e *Engine) Do(ctx context.Context, step migrate.Step, o migrate.Order) (out migrate.Outcome, err error) {
	switch step {
	case migrate.StepPullImage:
		if _, err := e.run(ctx, "image", "exists", "--", o.Container.ImageID); err != nil {
			return out, &migrate.Error{Code: migrate.CodeNoImage, Msg: "image " + o.Container.Image + " is not here"}
		}
		out.Note = "already there"
	case migrate.StepPreCopy:
		return e.preCopy(ctx, o)
	case migrate.StepFreeze:
		return e.freeze(ctx, o)
	case migrate.StepRestore:
		_, running, err := e.Copy(ctx, o.Move)
		if err != nil || running {
			return out, err
		}
		return out, e.restore(ctx, o)
	case migrate.StepConfirm:
		err = e.tidy(o.Move)
	case migrate.StepForget:
		err = e.remove(ctx, o.Container.ID, "-v")
		err = errors.Join(err, e.tidy(o.Move))
	case migrate.StepDiscard:
		if id, _, copyErr := e.Copy(ctx, o.Move); copyErr != nil {
			return out, copyErr
		} else if id != "" {
			err = e.remove(ctx, id, "-f", "-v", "-t", "0")
		}
		err = errors.Join(err, e.tidy(o.Move))
	case migrate.StepThaw:
		return e.thaw(ctx, o)
	default:
		err = &migrate.Error{Code: migrate.CodeRefused, Msg: fmt.Sprintf("podman takes no step %s; leave --approach and --registry out", step)}
	}
	return out, err
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

// Send writes a part of a frozen container.
func (e *Engine) Send(ctx context.Context, p migrate.Part, o migrate.Order, w io.Writer) (migrate.Outcome, error) {
	var size pack.Size
	var err error
	switch p.Kind {
	case migrate.PartArchive:
		size, err = sendFile(w, e.archive(o.Move))
	case migrate.PartMemory:
		size, err = sendFile(w, e.memory(o.Move))
	case migrate.PartImage:
		file := filepath.Join(e.dir, o.Move+".image")
		defer os.Remove(file)
		if _, err = e.run(ctx, "save", "-o", file, "--", o.Container.ImageID); err == nil {
			size, err = sendFile(w, file)
		}
	default:
		err = &migrate.Error{Code: migrate.CodeRefused, Msg: fmt.Sprintf("a container of podman has no part %s", p)}
	}
	return migrate.Outcome{Bytes: size.Packed, Raw: size.Raw}, err
}

func sendFile(w io.Writer, file string) (pack.Size, error) {
	f, err := os.Open(file)
	if err != nil {
		return pack.Size{}, err
	}
	size, err := pack.Copy(w, f)
	return size, errors.Join(err, f.Close())
}

// Receive takes a part of a container.
func (e *Engine) Receive(ctx context.Context, p migrate.Part, o migrate.Order, r io.Reader) (out migrate.Outcome, err error) {
	file := e.archive(o.Move) + ".part"
	limits, err := pack.Room(e.dir, o.Limit(p))
	if err != nil {
		return out, err
	}
	archive, size, err := pack.Unpack(r, limits)
	if err != nil {
		return out, err
	}
	defer archive.Close()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return out, err
	}
	_, err = io.Copy(f, archive)
	err = errors.Join(err, f.Close())
	out = migrate.Outcome{Bytes: size().Packed, Raw: size().Raw}
	if err != nil {
		return out, errors.Join(err, os.Remove(file))
	}
	switch p.Kind {
	case migrate.PartImage:
		// The archive asks for the image by its name.
		if _, err = e.run(ctx, "load", "-i", file); err == nil {
			_, err = e.run(ctx, "tag", "--", o.Container.ImageID, o.Container.Image)
		}
		return out, errors.Join(err, os.Remove(file))
	case migrate.PartArchive:
		if err := os.WriteFile(e.arrived(o.Move), []byte(o.Container.ID), 0o600); err != nil {
			return out, err
		}
		return out, os.Rename(file, e.archive(o.Move))
	case migrate.PartMemory:
		return out, os.Rename(file, e.memory(o.Move))
	}
	return out, &migrate.Error{Code: migrate.CodeRefused, Msg: fmt.Sprintf("a container of podman has no part %s", p)}
}
