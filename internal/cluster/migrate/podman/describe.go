// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/command"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/process"
	"weir/internal/core/wire"
)

// Facts returns what a pre-flight has to know.
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
		Engine: wire.EnginePodman, EngineVersion: info.Version.Version, Arch: info.Host.Arch, Kernel: info.Host.Kernel, CPUFlags: process.CPUFlags(),
		Runtime: info.Host.OCIRuntime.Name, StorageDriver: info.Store.GraphDriverName, Cgroups: strings.TrimPrefix(info.Host.CgroupVersion, "v"),
		Checkpoints: true, TCP: cmp.Or(process.TCPMode(process.RuncConf), "established"),
	}
	var st unix.Statfs_t
	if err := unix.Statfs(e.dir, &st); err == nil {
		f.FreeBytes = int64(st.Bavail) * st.Bsize
	}
	version, err := command.New(ctx, "criu", "--version").Output()
	if err != nil {
		f.CRIUTrouble = err.Error()
		return f, nil
	}
	f.CRIU, _, _ = strings.Cut(strings.TrimPrefix(string(version), "Version: "), "\n")
	f.SoftDirty = command.New(ctx, "criu", "check", "--feature", "mem_dirty_track").Run() == nil
	return f, nil
}

// inspection has the fields of podman's description that a migration needs.
type inspection struct {
	ID        string `json:"Id"`
	Name      string
	Image     string // its id
	ImageName string
	// StaticDir is the folder in which podman keeps the container's checkpoint.
	StaticDir  string
	OCIRuntime string
	State      struct {
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
	GraphDriver  struct{ Data struct{ UpperDir string } }
	Dependencies []string // ids of containers without which it does not start
	Pod          string
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
		ID: r.ID, Name: r.Name, Engine: wire.EnginePodman, Running: r.State.Running, Paused: r.State.Paused, Pid: r.State.Pid,
		Image: r.ImageName, ImageID: r.Image, Restart: r.HostConfig.RestartPolicy.Name, Hostname: r.Config.Hostname,
		LayerBytes: process.FolderSize(r.GraphDriver.Data.UpperDir),
	}
	for _, m := range r.Mounts {
		switch m.Type {
		case "bind":
			info, err := os.Stat(m.Source)
			c.Binds = append(c.Binds, migrate.BindMount{Source: m.Source, Destination: m.Destination, Dir: err == nil && info.IsDir()})
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
		c.Connections, c.Bound = process.Sockets(c.Pid, os.Getpid())
	}
	c.Obstacles = obstacles(r)
	if c.Running && c.Pid > 0 {
		c.Obstacles = append(c.Obstacles, e.unmovable(ctx, r)...)
	}
	return c, nil
}

func obstacles(r inspection) (list []migrate.PreflightFinding) {
	refuse := func(code, msg, remedy string) {
		list = append(list, migrate.PreflightFinding{Code: code, Refuses: true, Msg: msg, Remedy: remedy})
	}
	if r.HostConfig.Privileged {
		refuse("privileged", "it is privileged and may hold any device of its host", "start it without --privileged, with the --cap-add that it needs")
	}
	if r.HostConfig.AutoRemove {
		refuse("auto-remove", "it is removed when it stops (--rm), so it could not go back if the move fails", "start it without --rm")
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

// secondLook is the time after which a process of no container has to be in a container's
// namespace still.
const secondLook = 300 * time.Millisecond

var libpod = regexp.MustCompile(`libpod-([0-9a-f]{64})`)

// unmovable returns what stands against a dump of a container as its processes are now: what
// CRIU cannot dump, and containers and processes that share a namespace with it.
func (e *Engine) unmovable(ctx context.Context, r inspection) []migrate.PreflightFinding {
	sharers := map[string]bool{} // by name
	nameOf := func(groups string) string {
		found := libpod.FindStringSubmatch(groups)
		if found == nil {
			return ""
		}
		if other, err := e.inspect(ctx, found[1]); err == nil {
			sharers[other.Name] = true
			return other.Name
		}
		return fmt.Sprintf("%.12s", found[1])
	}
	look := func() []process.Stranger { return process.Strangers(r.State.Pid, r.ID, os.Getpid()) }
	list := slices.Concat(process.Undumpable(r.State.Pid), process.HostConnections(r.State.Pid, os.Getpid()), process.Staying(look, nameOf, func() { time.Sleep(secondLook) }))
	return append(list, e.dependents(ctx, r.ID, sharers)...)
}

// dependents returns a finding for each container that is to share a namespace of a container or
// requires it: it could not be started any more, and podman removes no container on which another
// one depends. Those that run and share a namespace are found already, as sharers.
func (e *Engine) dependents(ctx context.Context, id string, sharers map[string]bool) (list []migrate.PreflightFinding) {
	refuse := func(msg, remedy string) {
		list = append(list, migrate.PreflightFinding{Code: "shared-namespace", Refuses: true, Msg: msg, Remedy: remedy})
	}
	ids, err := e.run(ctx, "ps", "-a", "-q", "--no-trunc")
	if err != nil {
		refuse("its engine does not say which containers depend on it: "+err.Error(), "try again")
		return list
	}
	for _, other := range strings.Fields(ids) {
		r, err := e.inspect(ctx, other)
		switch {
		case noContainer(err), err == nil && (sharers[r.Name] || !slices.Contains(r.Dependencies, id)):
		case err != nil:
			refuse(fmt.Sprintf("its engine does not say whether container %.12s depends on it: %v", other, err), "try again")
		case r.State.Running:
			refuse("container "+r.Name+" requires it and would stay behind", "podman rm -f "+r.Name)
		default:
			refuse("container "+r.Name+", which does not run, is to share a namespace with it or requires it, and would stay behind", "podman rm "+r.Name)
		}
	}
	return list
}
