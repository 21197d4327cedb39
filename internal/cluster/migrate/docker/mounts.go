// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sys/unix"
)

var volumeForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,254}$`)

// mounts may be volumes that the order names, of the driver local and without options;
// paths of the host that a rule names; and memory.
func (e *examiner) mounts() {
	for _, bind := range e.inspect.HostConfig.Binds {
		e.bindText(bind)
	}
	e.described()
	e.anonymous()
	for _, m := range e.inspect.HostConfig.Mounts {
		e.mount(m)
	}
	for _, m := range e.inspect.Mounts { // of these, create takes volumes of the image's
		if m.Type == mount.TypeVolume {
			e.volume(m.Name)
			e.inside("Mounts", m.Destination)
		}
	}
	var carried []string
	for _, v := range e.order.Container.Volumes {
		carried = append(carried, v.Name)
		if v.Driver != "local" {
			e.Refuse("volume "+v.Name+", driver", v.Driver, "")
		}
	}
	slices.Sort(carried)
	slices.Sort(e.volumes)
	if named := slices.Compact(e.volumes); !slices.Equal(carried, named) {
		e.Contradict("volumes", strings.Join(carried, " "), strings.Join(named, " "))
	}
}

// described checks that the order names the paths that are mounted: the pre-flight says of
// each whether it is there.
func (e *examiner) described() {
	var says []string
	for _, b := range e.order.Container.Binds {
		says = append(says, b.Source)
	}
	is := boundPaths(e.inspect)
	slices.Sort(says)
	slices.Sort(is)
	if !slices.Equal(slices.Compact(says), slices.Compact(is)) {
		e.Contradict("binds", strings.Join(says, " "), strings.Join(is, " "))
	}
}

// anonymous checks that what the image or the container asks for as a volume is one that
// is described, or covered by another mount: for any other the engine makes a volume.
func (e *examiner) anonymous() {
	covered := map[string]bool{}
	for _, m := range e.inspect.Mounts {
		covered[path.Clean(m.Destination)] = true
	}
	for _, m := range e.inspect.HostConfig.Mounts {
		covered[path.Clean(m.Target)] = true
	}
	for name := range e.inspect.HostConfig.Tmpfs {
		covered[path.Clean(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(e.inspect.Config.Volumes)) {
		e.inside("Config.Volumes", name)
		if !covered[path.Clean(name)] {
			e.Refuse("Config.Volumes", name, "")
		}
	}
}

// volume notes one that the configuration names.
func (e *examiner) volume(name string) {
	if !volumeForm.MatchString(name) {
		e.Refuse("volume", name, "")
	}
	e.volumes = append(e.volumes, name)
}

// bindOptions are the options of a bind that change nothing outside of the container.
var bindOptions = []string{"", "rw", "ro", "rprivate", "private", "nocopy"}

// bindText is such as data:/data:ro or /srv/shared:/srv.
func (e *examiner) bindText(text string) {
	fields := strings.Split(text, ":")
	if len(fields) < 2 || len(fields) > 3 {
		e.Refuse("HostConfig.Binds", text, "")
		return
	}
	allowed := bindOptions
	if strings.HasPrefix(fields[0], "/") {
		e.path("HostConfig.Binds", fields[0])
	} else {
		e.volume(fields[0])
		allowed = append(slices.Clone(allowed), "z", "Z") // labels its own files only
	}
	e.inside("HostConfig.Binds", fields[1])
	if len(fields) == 3 {
		if slices.ContainsFunc(strings.Split(fields[2], ","), func(option string) bool { return !slices.Contains(allowed, option) }) {
			e.Refuse("HostConfig.Binds", text, "")
		}
	}
}

func (e *examiner) path(field, source string) {
	if !e.rules.Bind(source) {
		e.Refuse(field, source, "binds: ["+source+"]")
	}
}

func (e *examiner) mount(m mount.Mount) {
	e.inside("HostConfig.Mounts", m.Target)
	m.Target, m.ReadOnly, m.Consistency = "", false, ""
	switch m.Type {
	case mount.TypeVolume:
		e.volume(m.Source)
		m.Source = ""
		if v := m.VolumeOptions; v != nil {
			if d := v.DriverConfig; d != nil && (d.Name != "" && d.Name != "local" || len(d.Options) > 0) {
				e.Refuse("HostConfig.Mounts.VolumeOptions.DriverConfig", fmt.Sprint(*d), "")
			}
			if v.Subpath != "" {
				e.Refuse("HostConfig.Mounts.VolumeOptions.Subpath", v.Subpath, "")
			}
			left := *v
			left.NoCopy, left.Labels, left.DriverConfig, left.Subpath = false, nil, nil, ""
			e.leftover("HostConfig.Mounts.VolumeOptions", left)
			m.VolumeOptions = nil
		}
	case mount.TypeBind:
		e.path("HostConfig.Mounts", m.Source)
		m.Source = ""
		if b := m.BindOptions; b != nil {
			left := *b
			if left.Propagation == mount.PropagationRPrivate || left.Propagation == mount.PropagationPrivate {
				left.Propagation = ""
			}
			left.NonRecursive, left.ReadOnlyNonRecursive, left.ReadOnlyForceRecursive = false, false, false
			e.leftover("HostConfig.Mounts.BindOptions", left)
			m.BindOptions = nil
		}
	case mount.TypeTmpfs:
		if o := m.TmpfsOptions; o != nil {
			for _, option := range o.Options {
				e.tmpfs("HostConfig.Mounts.TmpfsOptions", []string{strings.Join(option, "=")})
			}
			left := *o
			left.SizeBytes, left.Mode, left.Options = 0, 0, nil
			e.leftover("HostConfig.Mounts.TmpfsOptions", left)
			m.TmpfsOptions = nil
		}
	default:
		e.Refuse("HostConfig.Mounts", string(m.Type), "")
		return
	}
	m.Type = ""
	e.leftover("HostConfig.Mounts", m)
}

// tmpfsOptions are the options of a tmpfs that allow neither devices nor set-user-ID programs.
var tmpfsOptions = regexp.MustCompile(`^(|rw|ro|exec|noexec|nosuid|nodev|noatime|nodiratime|relatime|(size|mode|uid|gid|nr_inodes|nr_blocks)=[0-9]+[kmgKMG%]?)$`)

func (e *examiner) tmpfs(field string, options []string) {
	for _, option := range options {
		if !tmpfsOptions.MatchString(option) {
			e.Refuse(field, option, "")
		}
	}
}

// inside refuses a place in the container from which it could change what the engine
// has put there to protect its host.
func (e *examiner) inside(field, target string) {
	clean := path.Clean(target)
	for _, own := range []string{"/proc", "/sys", "/dev"} {
		if clean == own || strings.HasPrefix(clean, own+"/") && clean != "/dev/shm" {
			e.Refuse(field, target, "")
		}
	}
	if !path.IsAbs(target) || clean == "/" {
		e.Refuse(field, target, "")
	}
}

// boundPaths returns the paths of the host that a configuration mounts.
func boundPaths(r container.InspectResponse) (list []string) {
	for _, text := range r.HostConfig.Binds {
		if source, _, _ := strings.Cut(text, ":"); strings.HasPrefix(source, "/") {
			list = append(list, source)
		}
	}
	for _, m := range r.HostConfig.Mounts {
		if m.Type == mount.TypeBind {
			list = append(list, m.Source)
		}
	}
	return list
}

// straight returns an error if a path of the daemon's leads over a symbolic link,
// which another container with the same mount may have made, to wherever it likes.
func (p place) straight(source string) error {
	root, err := unix.Open(p.file("/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	f, err := unix.Openat2(root, strings.TrimPrefix(path.Clean(source), "/")+"/.", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_IN_ROOT})
	if errors.Is(err, unix.ENOTDIR) { // a file
		f, err = unix.Openat2(root, strings.TrimPrefix(path.Clean(source), "/"), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_IN_ROOT})
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // Lacking says so
	case errors.Is(err, unix.ELOOP):
		return errors.New("a symbolic link is on the way")
	case err != nil:
		return err
	}
	return unix.Close(f)
}
