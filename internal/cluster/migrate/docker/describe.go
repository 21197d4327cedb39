// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/daemon"
	"weir/internal/cluster/migrate/process"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Facts returns what a pre-flight has to know of this engine and its machine.
func (e *Engine) Facts(ctx context.Context) (migrate.Facts, error) {
	info, err := e.client.Info(ctx)
	if err != nil {
		return migrate.Facts{}, definite(ctx, err)
	}
	p, err := e.place()
	if err != nil {
		return migrate.Facts{}, definite(ctx, err)
	}
	f := migrate.Facts{
		Engine: wire.EngineDocker, EngineVersion: info.ServerVersion, Arch: info.Architecture, Kernel: info.KernelVersion,
		CPUFlags: process.CPUFlags(), Runtime: info.DefaultRuntime, StorageDriver: info.Driver, Cgroups: info.CgroupVersion,
		Checkpoints: info.ExperimentalBuild,
		UsernsRemap: slices.ContainsFunc(info.SecurityOptions, func(o string) bool { return strings.Contains(o, "name=userns") }),
		TCP:         process.TCPMode(p.file(process.RuncConf)),
	}
	var st unix.Statfs_t
	if err := unix.Statfs(p.file(info.DockerRootDir), &st); err == nil {
		f.FreeBytes = int64(st.Bavail) * st.Bsize
	}
	version, err := daemon.Output(p.command(ctx, "criu", "--version"))
	if err != nil {
		f.CRIUTrouble = err.Error()
		return f, nil
	}
	f.CRIU, _, _ = strings.Cut(strings.TrimPrefix(version, "Version: "), "\n")
	if _, err := daemon.Output(p.command(ctx, "criu", "check")); err != nil {
		f.CRIUTrouble = err.Error()
	}
	_, err = daemon.Output(p.command(ctx, "criu", "check", "--feature", "mem_dirty_track"))
	f.SoftDirty = err == nil
	return f, nil
}

// config is the content of migrate.Container.Config: the engine's description, and
// of which volumes and networks the copy has to be given more than that says.
type config struct {
	Inspect container.InspectResponse `json:"inspect"`
}

// Describe finds a container.
func (e *Engine) Describe(ctx context.Context, name string) (migrate.Container, error) {
	r, _, err := e.client.ContainerInspectWithRaw(ctx, name, false)
	if errdefs.IsNotFound(err) {
		return migrate.Container{}, &move.Error{Code: move.CodeNoContainer, Msg: fmt.Sprintf("no container %q", name), Remedy: "docker ps lists those that run"}
	}
	if err != nil {
		return migrate.Container{}, definite(ctx, err)
	}
	c := migrate.Container{
		ID: r.ID, Name: strings.TrimPrefix(r.Name, "/"), Engine: wire.EngineDocker,
		Running: r.State.Running, Paused: r.State.Paused, Pid: r.State.Pid,
		Image: r.Config.Image, ImageID: r.Image, Hostname: r.Config.Hostname,
		Restart: string(r.HostConfig.RestartPolicy.Name),
	}
	if image, err := e.client.ImageInspect(ctx, r.Image); err == nil {
		c.Layers, c.ImageBytes = len(image.RootFS.Layers), image.Size
	}
	p, err := e.place()
	if err != nil {
		return c, definite(ctx, err)
	}
	if upper := r.GraphDriver.Data["UpperDir"]; upper != "" {
		c.LayerBytes = process.FolderSize(p.file(upper))
	}
	if err := e.describeMounts(ctx, p, r, &c); err != nil {
		return c, definite(ctx, err)
	}
	if err := e.describeNetworks(ctx, r, &c); err != nil {
		return c, definite(ctx, err)
	}
	if c.Running && c.Pid > 0 {
		c.MemoryBytes = process.Memory(c.Pid)
		c.Connections, c.Bound = process.Sockets(c.Pid, p.pid)
		if c.Obstacles, err = unmovable(ctx, e.client, p, r); err != nil {
			return c, definite(ctx, err)
		}
	}
	c.Obstacles = append(c.Obstacles, obstacles(r)...)
	c.Config, err = json.Marshal(config{Inspect: r})
	return c, err
}

func (e *Engine) describeMounts(ctx context.Context, p place, r container.InspectResponse, c *migrate.Container) error {
	for _, m := range r.Mounts {
		switch m.Type {
		case mount.TypeBind:
			info, err := os.Stat(p.file(m.Source))
			c.Binds = append(c.Binds, migrate.BindMount{Source: m.Source, Destination: m.Destination, Dir: err == nil && info.IsDir()})
		case mount.TypeVolume:
			v, err := e.client.VolumeInspect(ctx, m.Name)
			if err != nil {
				return err
			}
			_, anonymous := v.Labels[anonymousVolume]
			anonymous = anonymous || isID(m.Name)
			c.Volumes = append(c.Volumes, migrate.Volume{
				Name: m.Name, Driver: v.Driver, Destination: m.Destination, Labels: v.Labels,
				Anonymous: anonymous, Bytes: process.FolderSize(p.file(v.Mountpoint)),
			})
		}
	}
	return nil
}

// isID: anonymous volumes are called by 64 hexadecimal digits.
func isID(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == 64
}

func (e *Engine) describeNetworks(ctx context.Context, r container.InspectResponse, c *migrate.Container) error {
	for name, endpoint := range r.NetworkSettings.Networks {
		n := migrate.Network{Name: name, IP: endpoint.IPAddress}
		n.Fixed = endpoint.IPAMConfig != nil && endpoint.IPAMConfig.IPv4Address != ""
		found, err := e.client.NetworkInspect(ctx, name, network.InspectOptions{})
		if err != nil {
			return err
		}
		n.Driver = found.Driver
		c.Networks = append(c.Networks, n)
	}
	slices.SortFunc(c.Networks, func(a, b migrate.Network) int { return strings.Compare(a.Name, b.Name) })
	c.Ports = portsOf(r)
	return nil
}

// portsOf returns the ports that a container publishes, such as "127.0.0.1:8080/tcp".
func portsOf(r container.InspectResponse) (list []string) {
	for port, bindings := range r.HostConfig.PortBindings {
		for _, b := range bindings {
			list = append(list, fmt.Sprintf("%s:%s/%s", b.HostIP, b.HostPort, port.Proto()))
		}
	}
	slices.Sort(list)
	return list
}

// obstacles returns the parts of a configuration that cannot be migrated: each was
// tried, and fails in the dump or in the restore.
func obstacles(r container.InspectResponse) (list []migrate.PreflightFinding) {
	refuse := func(code, msg, remedy string) {
		list = append(list, migrate.PreflightFinding{Code: code, Refuses: true, Msg: msg, Remedy: remedy})
	}
	h := r.HostConfig
	if h.Privileged {
		refuse("privileged", "it is privileged and may hold any device of its host", "start it without --privileged, with the --cap-add that it needs")
	}
	for _, d := range h.Devices {
		refuse("device", fmt.Sprintf("it has the host's device %s", d.PathOnHost), "start it without --device")
	}
	if len(h.DeviceRequests) > 0 {
		refuse("device", "it has devices of the host's (--gpus or the like)", "start it without them")
	}
	if h.Init != nil && *h.Init {
		refuse("init", "it has docker's own init, whose mount cannot be restored", "start it without --init, with an init in its image")
	}
	if h.AutoRemove {
		refuse("auto-remove", "it is removed when it stops (--rm), so it could not go back if the move fails", "start it without --rm")
	}
	for _, shared := range []struct{ what, value, flag string }{
		{"network", string(h.NetworkMode), "--network"}, {"processes", string(h.PidMode), "--pid"}, {"IPC", string(h.IpcMode), "--ipc"},
	} {
		if strings.HasPrefix(shared.value, "container:") {
			refuse("shared-namespace", fmt.Sprintf("it shares its %s with %s", shared.what, shared.value), "start it without "+shared.flag)
		}
	}
	if len(h.Links) > 0 {
		refuse("links", fmt.Sprintf("it has links to other containers (%s)", strings.Join(h.Links, ", ")), "use a network with aliases instead of --link")
	}
	if service := r.Config.Labels["com.docker.swarm.service.name"]; service != "" {
		refuse("swarm", fmt.Sprintf("it belongs to the swarm service %s, which would start another in its place", service), "let swarm move it, without its memory: docker service update --force "+service+"; or run it by docker run (a service with --restart-condition none, as in the C-Balancer paper, would not be started again, but swarm would count it as ended, and know nothing of the copy)")
	}
	if r.Config.Tty && r.Config.OpenStdin && r.Config.AttachStdin {
		list = append(list, migrate.PreflightFinding{Code: "attached", Msg: "users attached to its terminal will be cut off", Remedy: "attach again on the target"})
	}
	for _, id := range r.ExecIDs {
		list = append(list, migrate.PreflightFinding{Code: "exec", Msg: fmt.Sprintf("what runs in it by docker exec (%.12s) ends", id)})
	}
	return list
}
