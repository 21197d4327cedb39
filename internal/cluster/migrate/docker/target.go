// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/api/types/volume"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker/cgroup"
	"weir/internal/cluster/migrate/remains"
	"weir/internal/cluster/move"
)

// Lacking says what this engine lacks as the target of an order.
func (e *Engine) Lacking(ctx context.Context, o migrate.MoveSpec) (list []migrate.PreflightFinding, err error) {
	add := func(code string, refuses bool, remedy, format string, args ...any) {
		list = append(list, migrate.PreflightFinding{Code: code, Refuses: refuses, Msg: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	if list, err := e.unacceptable(ctx, o); err != nil || len(list) > 0 {
		return list, definite(ctx, err) // a refused source learns nothing else about this node
	}
	c := o.Container
	if _, err := e.client.ContainerInspect(ctx, c.Name); err == nil {
		add("name-taken", true, "rename or remove it", "a container %s is there already", c.Name)
	} else if !errdefs.IsNotFound(err) {
		return nil, definite(ctx, err)
	}
	p, err := e.place()
	if err != nil {
		return nil, definite(ctx, err)
	}
	for _, b := range c.Binds {
		if info, err := os.Stat(p.file(b.Source)); err != nil {
			add("bind-missing", true, "make it there, with the same files (a shared file system), or use a volume", "the path %s, mounted at %s, is missing", b.Source, b.Destination)
		} else if info.IsDir() != b.Dir {
			add("bind-kind", true, "make it the same there", "%s is a folder on one node and a file on the other", b.Source)
		}
	}
	for _, v := range c.Volumes {
		if _, err := e.client.VolumeInspect(ctx, v.Name); err == nil {
			add("volume-taken", true, "remove or rename it: docker volume rm "+v.Name, "a volume %s is there already and may hold data in use", v.Name)
		}
		if v.Driver != "local" {
			add("volume-driver", true, "copy its data yourself, or use a shared volume", "volume %s has the driver %s, whose data cannot be copied", v.Name, v.Driver)
		}
	}
	for _, n := range c.Networks {
		found, err := e.client.NetworkInspect(ctx, n.Name, network.InspectOptions{})
		switch {
		case errdefs.IsNotFound(err):
			add("network-missing", true, fmt.Sprintf("docker network create -d %s %s", n.Driver, n.Name), "network %s is missing", n.Name)
		case err != nil:
			return nil, definite(ctx, err)
		case found.Driver != n.Driver:
			add("network-driver", true, "make it the same there", "network %s is a %s here and a %s on the source", n.Name, found.Driver, n.Driver)
		}
	}
	published, err := e.published(ctx)
	if err != nil {
		return nil, definite(ctx, err)
	}
	for _, port := range c.Ports {
		number := port[strings.LastIndex(port, ":")+1:]
		by := published[number]
		switch {
		case by == "" || strings.HasPrefix(number, "0/") || strings.HasPrefix(number, "/"):
		case e.rules != nil: // another node is not told what runs here
			add("port-taken", true, "free it there, or publish another", "port %s is published by a container", number)
		default:
			add("port-taken", true, "stop "+by+", or publish another", "port %s is published by %s", number, by)
		}
	}
	_, err = e.client.ImageInspect(ctx, c.ImageID)
	if errdefs.IsNotFound(err) {
		add("image-missing", false, "", "image %s is not there yet and will be brought (%d bytes at most)", c.Image, c.ImageBytes)
	}
	return list, nil
}

// unacceptable returns the settings of a container that this node does not take
// from others.
func (e *Engine) unacceptable(ctx context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	if e.rules == nil {
		return nil, nil
	}
	info, err := e.client.Info(ctx)
	if err != nil {
		return nil, err
	}
	list := examine(o, *e.rules, host{runtime: info.DefaultRuntime, cgroups: info.CgroupVersion})
	if len(list) > 0 {
		return list, nil
	}
	c, err := decode(o.Container.Config)
	if err != nil {
		return nil, err
	}
	p, err := e.place()
	if err != nil {
		return nil, err
	}
	x := &migrate.Examination{}
	for _, source := range boundPaths(c.Inspect) {
		if err := p.straight(source); err != nil {
			x.Refuse("bind", source+" ("+err.Error()+")", "")
		}
	}
	if err := e.neighbours(ctx, c.Inspect, x); err != nil {
		return nil, err
	}
	return x.Findings(), nil
}

// published returns the node's ports that containers have, e.g. "8080/tcp", and whose they are.
func (e *Engine) published(ctx context.Context) (map[string]string, error) {
	list, err := e.client.ContainerList(ctx, container.ListOptions{})
	ports := map[string]string{}
	for _, c := range list {
		for _, p := range c.Ports {
			if p.PublicPort > 0 {
				ports[fmt.Sprintf("%d/%s", p.PublicPort, p.Type)] = nameOf(c)
			}
		}
	}
	return ports, err
}

// nameOf returns a container's name, or the id of one that is being removed and has none.
func nameOf(c container.Summary) string {
	if len(c.Names) == 0 {
		return fmt.Sprintf("%.12s", c.ID)
	}
	return strings.TrimPrefix(c.Names[0], "/")
}

// pullImage sees to it that the container's image is here.
func (e *Engine) pullImage(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	_, missing := e.client.ImageInspect(ctx, o.Container.ImageID)
	if missing == nil && o.Approach == migrate.ApproachCommit && o.Registry != "" {
		// What will be committed goes on top of it. An engine downloads layers that it has
		// unless it knows by which digest the registry has them, which it learns by
		// pushing them itself: so it does, while the container runs.
		out, err = e.pushAs(ctx, hint(o), o)
		out.Note = "already there"
		return out, err
	}
	if missing == nil {
		return migrate.StepOutcome{Note: "already there"}, nil
	}
	absent := &move.Error{Code: move.CodeNoImage, Msg: fmt.Sprintf("image %s is not here", o.Container.Image)}
	if o.Registry == "" {
		return out, absent
	}
	if out, err = e.pullRef(ctx, base(o), o.Login); err != nil {
		if strings.Contains(err.Error(), "not found") || strings.Contains(err.Error(), "manifest unknown") || strings.Contains(err.Error(), "no such manifest") {
			return out, absent
		}
		return out, err
	}
	found, err := e.client.ImageInspect(ctx, base(o))
	if err != nil {
		return out, err
	}
	if found.ID != o.Container.ImageID {
		return out, failed("%s holds image %s, not %s", base(o), found.ID, o.Container.ImageID)
	}
	if err := e.client.ImageTag(ctx, base(o), brought(o)); err != nil {
		return out, err
	}
	e.untag(ctx, base(o))
	return out, nil
}

// pull brings what the source has committed. Another member may have given its name to
// another image meanwhile.
func (e *Engine) pull(ctx context.Context, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	if o.Committed == nil || o.Committed.Digest == "" || o.Committed.ImageID == "" {
		return migrate.StepOutcome{}, refused("which image the source has committed is not said")
	}
	return e.pullDigest(ctx, o)
}

// create makes the copy, which does not run: the same configuration, no restart
// policy yet, and empty volumes.
func (e *Engine) create(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	if id, _, err := e.Copy(ctx, o.Move); err != nil || id != "" {
		return out, err
	}
	if list, err := e.unacceptable(ctx, o); err != nil || len(list) > 0 {
		return out, errors.Join(migrate.NotAccepted(list), err)
	}
	c, err := configOf(o)
	if err != nil {
		return out, err
	}
	if err := e.createVolumes(ctx, o); err != nil {
		return out, err
	}
	own, host := *c.Inspect.Config, *c.Inspect.HostConfig
	own.Image = committed(o)
	if own.Image == "" {
		own.Image = e.imageName(ctx, o.Container)
	}
	if own.Labels, err = e.labels(ctx, own.Labels, own.Image); err != nil {
		return out, err
	}
	own.Labels[migrate.MoveLabel] = o.Move
	host.RestartPolicy = container.RestartPolicy{Name: container.RestartPolicyDisabled}
	host.Mounts = append(slices.Clone(host.Mounts), hiddenVolumes(c.Inspect)...)
	networks := e.endpoints(c.Inspect, o.Container.Networks)
	first, rest := e.atCreate(&host, networks)
	made, err := e.client.ContainerCreate(ctx, &own, &host, first, nil, o.Container.Name)
	if err != nil {
		return out, err
	}
	if err := e.checkImage(ctx, made.ID, o); err != nil {
		return out, err
	}
	for name, endpoint := range rest {
		if err := e.client.NetworkConnect(ctx, name, made.ID, endpoint); err != nil {
			return out, err
		}
	}
	return out, nil
}

// labels returns the labels of a copy that is made of an image.
func (e *Engine) labels(ctx context.Context, labels map[string]string, image string) (map[string]string, error) {
	if e.rules == nil {
		return maps.Collect(maps.All(labels)), nil
	}
	r, err := e.client.ImageInspect(ctx, image)
	if err != nil {
		return nil, err
	}
	var baked map[string]string
	if r.Config != nil {
		baked = r.Config.Labels
	}
	return e.rules.KeptLabels(labels, baked), nil
}

// anonymousVolume is the label by which Docker knows the volumes that it may prune.
const anonymousVolume = "com.docker.volume.anonymous"

// volumeLabels returns the labels of a copy's volume: those that a container may bring. Programs
// go by them as by a container's: those that make backups of volumes, or remove them.
func (e *Engine) volumeLabels(v migrate.Volume) map[string]string {
	if e.rules == nil {
		return maps.Collect(maps.All(v.Labels))
	}
	labels := e.rules.KeptLabels(v.Labels, nil)
	if value, has := v.Labels[anonymousVolume]; has {
		labels[anonymousVolume] = value
	}
	return labels
}

// createVolumes makes the copy's volumes, empty. The engine would take one that is there
// already for the same.
func (e *Engine) createVolumes(ctx context.Context, o migrate.MoveSpec) error {
	for _, v := range o.Container.Volumes {
		found, err := e.client.VolumeInspect(ctx, v.Name)
		switch {
		case err == nil && found.Labels[migrate.MoveLabel] != o.Move:
			return refused("a volume %s is there already", v.Name)
		case err != nil && !errdefs.IsNotFound(err):
			return err
		}
		labels := e.volumeLabels(v)
		labels[migrate.MoveLabel] = o.Move
		if _, err := e.client.VolumeCreate(ctx, volume.CreateOptions{Name: v.Name, Driver: v.Driver, Labels: labels}); err != nil {
			return err
		}
	}
	return nil
}

// checkImage removes a copy that was made of another image than the ordered one: its
// name may have changed hands while it was created.
func (e *Engine) checkImage(ctx context.Context, id string, o migrate.MoveSpec) error {
	want := o.Container.ImageID
	switch {
	case o.Approach == migrate.ApproachExport:
		return nil // the image was made here, of what has come
	case o.Committed != nil:
		want = o.Committed.ImageID
	}
	made, err := e.client.ContainerInspect(ctx, id)
	if err != nil || made.Image == want {
		return err
	}
	err = e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
	return errors.Join(refused("the copy was made of image %s, ordered was %s", made.Image, want), err)
}

// hiddenVolumes returns the volumes that no option of the container's names, since
// its image asks for them.
func hiddenVolumes(r container.InspectResponse) (list []mount.Mount) {
	for _, m := range r.Mounts {
		if m.Type != mount.TypeVolume {
			continue
		}
		named := slices.ContainsFunc(r.HostConfig.Mounts, func(n mount.Mount) bool { return n.Target == m.Destination && n.Source != "" }) ||
			slices.ContainsFunc(r.HostConfig.Binds, func(b string) bool { return strings.HasPrefix(b, m.Name+":") })
		if !named {
			list = append(list, mount.Mount{Type: mount.TypeVolume, Source: m.Name, Target: m.Destination, ReadOnly: !m.RW})
		}
	}
	return list
}

// endpoints returns the container's places in its networks, without what the engine
// has added to them.
func (e *Engine) endpoints(r container.InspectResponse, networks []migrate.Network) map[string]*network.EndpointSettings {
	list := map[string]*network.EndpointSettings{}
	for _, n := range networks {
		was := r.NetworkSettings.Networks[n.Name]
		if was == nil {
			continue
		}
		now := &network.EndpointSettings{IPAMConfig: was.IPAMConfig, Links: was.Links, DriverOpts: was.DriverOpts}
		for _, alias := range was.Aliases {
			if alias != r.ID[:min(12, len(r.ID))] {
				now.Aliases = append(now.Aliases, alias)
			}
		}
		if n.Fixed && versions.GreaterThanOrEqualTo(e.client.ClientVersion(), "1.44") {
			now.MacAddress = was.MacAddress
		}
		list[n.Name] = now
	}
	return list
}

// atCreate divides the networks into those that an engine takes when a container is
// created, one before API 1.44, and those that it is connected to afterwards.
func (e *Engine) atCreate(host *container.HostConfig, all map[string]*network.EndpointSettings) (first *network.NetworkingConfig, rest map[string]*network.EndpointSettings) {
	if mode := host.NetworkMode; mode.IsHost() || mode.IsNone() {
		return nil, nil
	}
	own := host.NetworkMode.NetworkName()
	first, rest = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{}}, map[string]*network.EndpointSettings{}
	for name, endpoint := range all {
		switch {
		case name == own || len(all) == 1:
			first.EndpointsConfig[name] = endpoint
		default:
			rest[name] = endpoint
		}
	}
	return first, rest
}

// restore starts the copy from the checkpoint.
func (e *Engine) restore(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	id, running, err := e.mustCopy(ctx, o)
	if err != nil || running {
		return out, err
	}
	f, err := e.folder(ctx, id, o.Move)
	if err != nil {
		return out, err
	}
	if !f.complete() {
		return out, failed("the checkpoint of %s has not arrived", o.Container.Name)
	}
	if err := f.offer(); err != nil {
		return out, err
	}
	if err := e.client.ContainerStart(ctx, id, container.StartOptions{CheckpointID: f.name}); err != nil {
		return out, errors.Join(err, endHalf(ctx, e.client, f.place, id))
	}
	return out, nil
}

// Hold implements migrate.Engine.
func (e *Engine) Hold(ctx context.Context, o migrate.MoveSpec) error {
	return e.whenRestored(ctx, o, false, e.client.ContainerPause)
}

// Release implements migrate.Engine.
func (e *Engine) Release(ctx context.Context, o migrate.MoveSpec) error {
	return e.whenRestored(ctx, o, true, e.client.ContainerUnpause)
}

// whenRestored does something with a copy that has processes, if it is paused or not.
func (e *Engine) whenRestored(ctx context.Context, o migrate.MoveSpec, paused bool, do func(ctx context.Context, id string) error) error {
	id, running, err := e.mustCopy(ctx, o)
	if err == nil && !running {
		err = gone(o)
	}
	if err != nil {
		return definite(ctx, err)
	}
	r, err := e.client.ContainerInspect(ctx, id)
	if p, placeErr := e.place(); err == nil && !paused {
		err = cmp.Or(placeErr, cgroup.Check(r.State.Pid, r.ID, p.file))
	}
	if err == nil && r.State.Paused == paused {
		err = do(ctx, id)
	}
	return definite(ctx, err)
}

func gone(o migrate.MoveSpec) error {
	return &move.Error{Code: move.CodeGone, Msg: fmt.Sprintf("the copy of %s is no more", o.Container.Name)}
}

func (e *Engine) mustCopy(ctx context.Context, o migrate.MoveSpec) (id string, running bool, err error) {
	id, running, err = e.Copy(ctx, o.Move)
	if err == nil && id == "" {
		err = gone(o)
	}
	return id, running, err
}

// confirm makes the copy the container.
func (e *Engine) confirm(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	id, _, err := e.mustCopy(ctx, o)
	if err != nil {
		return out, err
	}
	out.Note = announced(ctx, e.client, e.place, id)
	if err := e.giveRestart(ctx, id, o); err != nil {
		return out, err
	}
	if o.Approach == migrate.ApproachCommit {
		e.dropBrought(ctx, o) // the copy's image is another, with the same layers
	} else {
		e.untag(ctx, brought(o))
	}
	e.untagPassing(ctx, o)
	return out, e.tidy(ctx, id, o.Move)
}

// discard removes the copy and all that was made for it.
func (e *Engine) discard(ctx context.Context, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	id, _, err := e.Copy(ctx, o.Move)
	if err != nil {
		return out, err
	}
	if id != "" {
		f, err := e.folder(ctx, id, o.Move)
		if err != nil {
			return out, err
		}
		containerd := e.containerd(ctx, f.place, id)
		err = remains.Freed(ctx, id, func() error {
			return e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		})
		if err != nil && !errdefs.IsNotFound(err) {
			return out, err
		}
		f.sweep(containerd)
		if err := endHalf(ctx, e.client, f.place, id); err != nil {
			return out, err
		}
	}
	volumes, err := e.client.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", migrate.MoveLabel+"="+o.Move))})
	if err != nil {
		return out, err
	}
	for _, v := range volumes.Volumes {
		if err := e.client.VolumeRemove(ctx, v.Name, true); err != nil && !errdefs.IsNotFound(err) {
			return out, err
		}
	}
	e.removeImage(ctx, committed(o))
	if o.Committed != nil { // the name may be another image's by now
		e.removeImage(ctx, digested(o))
	}
	e.dropBrought(ctx, o)
	e.untagPassing(ctx, o)
	return out, nil
}
