// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
)

// What a target accepts. The configuration comes from another node, which may be
// hostile, and the engine here obeys whatever is in it: Privileged, a bind of / or the
// host's process namespace make the container root of this host. So every field is one
// of these:
//
//   - vetted: a rule below says which values are harmless, or that an operator allows it;
//   - limits and what is inside of the container only: any value;
//   - everything else: only its zero value, fields of later engines included.
//
// The vetting works on a copy of the configuration. What a rule has passed is set to
// zero there, and what is left over at the end is refused.

// host is what of the target itself matters to the examination.
type host struct {
	runtime string // its default
	cgroups string // "1" or "2"
}

var (
	volumeForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,254}$`)
	nameForm   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)
)

// own are names of workloads that are no containers.
var own = []string{"host", "migration"}

// decode reads a configuration from elsewhere. A field that this build does not know
// may grant what it cannot judge.
func decode(text []byte) (c config, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("its configuration cannot be read: %w", err)
	}
	if c.Inspect.Config == nil || c.Inspect.ContainerJSONBase == nil || c.Inspect.HostConfig == nil || c.Inspect.NetworkSettings == nil {
		return c, fmt.Errorf("its configuration describes no Docker container")
	}
	return c, nil
}

// examine says what of an order's container this node does not accept. Pure.
func examine(o migrate.Order, rules migrate.Accept, at host) []migrate.Finding {
	x := &migrate.Examination{}
	c, err := decode(o.Container.Config)
	if err != nil {
		x.Note("not-accepted", err.Error(), "run the same Weir and engines of one version on all nodes")
		return x.Findings()
	}
	e := examiner{Examination: x, rules: rules, at: at, order: o, inspect: c.Inspect}
	e.identity()
	e.config()
	e.hostConfig()
	e.mounts()
	e.networks()
	return x.Findings()
}

type examiner struct {
	*migrate.Examination
	rules   migrate.Accept
	at      host
	order   migrate.Order
	inspect container.InspectResponse
	volumes []string // that the configuration names
}

// identity checks that the order speaks of the container that is configured.
func (e *examiner) identity() {
	c, r := e.order.Container, e.inspect
	if !nameForm.MatchString(c.Name) || slices.Contains(own, c.Name) {
		e.Refuse("name", c.Name, "")
	}
	for _, pair := range [][3]string{
		{"name", c.Name, strings.TrimPrefix(r.Name, "/")}, {"id", c.ID, r.ID}, {"image_id", c.ImageID, r.Image}, {"image", c.Image, r.Config.Image},
	} {
		if pair[1] != pair[2] {
			e.Contradict(pair[0], pair[1], pair[2])
		}
	}
	if c.Engine != "docker" {
		e.Contradict("engine", c.Engine, "docker")
	}
}

// config is about what is inside of the container: all of it is known, and harmless
// to its host.
func (e *examiner) config() {
	c := *e.inspect.Config
	c.Hostname, c.Domainname, c.User, c.Env, c.Cmd, c.Entrypoint, c.WorkingDir, c.Shell = "", "", "", nil, nil, nil, "", nil
	c.AttachStdin, c.AttachStdout, c.AttachStderr, c.Tty, c.OpenStdin, c.StdinOnce, c.ArgsEscaped = false, false, false, false, false, false, false
	c.ExposedPorts, c.Healthcheck, c.Image, c.Volumes, c.NetworkDisabled, c.MacAddress = nil, nil, "", nil, false, ""
	c.OnBuild, c.StopSignal, c.StopTimeout = nil, "", nil
	for key, value := range c.Labels {
		if strings.HasPrefix(key, "com.docker.swarm.") {
			e.Refuse("Config.Labels["+key+"]", value, "")
		}
	}
	c.Labels = nil
	e.leftover("Config", c)
}

// hostConfig is about what a container has of its host.
func (e *examiner) hostConfig() {
	h := *e.inspect.HostConfig
	e.harmless(&h)
	e.namespaces(&h)
	e.security(&h)
	e.resources(&h.Resources, &h.OomScoreAdj)
	e.ports(&h)
	e.logs(&h)
	for name, options := range h.Tmpfs {
		e.inside("HostConfig.Tmpfs", name)
		e.tmpfs("HostConfig.Tmpfs["+name+"]", strings.Split(options, ","))
	}
	h.Tmpfs = nil
	h.Binds, h.Mounts = nil, nil // see mounts
	if h.VolumeDriver == "local" {
		h.VolumeDriver = ""
	}
	e.leftover("HostConfig", h)
}

// harmless are fields of which any value will do.
func (e *examiner) harmless(h *container.HostConfig) {
	h.ContainerIDFile, h.ConsoleSize = "", [2]uint{} // the client's
	h.DNS, h.DNSOptions, h.DNSSearch, h.ExtraHosts = nil, nil, nil, nil
	h.CapDrop, h.ReadonlyRootfs = nil, false
	switch h.RestartPolicy.Name {
	case "", container.RestartPolicyDisabled, container.RestartPolicyAlways, container.RestartPolicyOnFailure, container.RestartPolicyUnlessStopped:
		h.RestartPolicy = container.RestartPolicy{}
	}
	if h.Isolation == "default" {
		h.Isolation = ""
	}
	if h.ShmSize <= max(64<<20, h.Memory) {
		h.ShmSize = 0
	}
	if h.Runtime == e.at.runtime {
		h.Runtime = ""
	}
}

// namespaces of its own are all that a container gets.
func (e *examiner) namespaces(h *container.HostConfig) {
	switch h.IpcMode {
	case "private", "none", "shareable":
		h.IpcMode = ""
	}
	// With cgroups of version 1 the host's is the engine's default.
	if h.CgroupnsMode == "private" || h.CgroupnsMode == "host" && e.at.cgroups == "1" {
		h.CgroupnsMode = ""
	}
	mode := h.NetworkMode
	h.NetworkMode = ""
	switch {
	case mode == "" || mode.IsDefault() || mode.IsBridge() || mode.IsNone():
	case mode.IsHost():
		if !e.rules.HostNetwork {
			e.Refuse("HostConfig.NetworkMode", string(mode), "host_network: true")
		}
	case mode.IsContainer():
		e.Refuse("HostConfig.NetworkMode", string(mode), "")
	default:
		if _, ok := e.inspect.NetworkSettings.Networks[string(mode)]; !ok {
			e.Refuse("HostConfig.NetworkMode", string(mode), "")
		}
	}
}

// coreMasked and coreReadonly are the paths that every engine hides, or protects, from
// a container; newer ones more.
var (
	coreMasked   = []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"}
	coreReadonly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func (e *examiner) security(h *container.HostConfig) {
	h.CapAdd = slices.DeleteFunc(slices.Clone(h.CapAdd), e.rules.Capability)
	for _, name := range h.CapAdd {
		e.Refuse("HostConfig.CapAdd", name, "capabilities: ["+name+"]")
	}
	h.CapAdd = nil
	for _, option := range h.SecurityOpt {
		switch option {
		case "no-new-privileges", "no-new-privileges:true", "no-new-privileges=true":
		default:
			e.Refuse("HostConfig.SecurityOpt", option, "")
		}
	}
	h.SecurityOpt = nil
	for _, group := range h.GroupAdd {
		if !slices.Contains(e.rules.Groups, group) {
			e.Refuse("HostConfig.GroupAdd", group, `groups: ["`+group+`"]`)
		}
	}
	h.GroupAdd = nil
	for _, name := range slices.Sorted(maps.Keys(h.Sysctls)) {
		if !slices.Contains(e.rules.Sysctls, name) {
			e.Refuse("HostConfig.Sysctls", name, "sysctls: ["+name+"]")
		}
	}
	h.Sysctls = nil
	for _, list := range []struct {
		field string
		paths *[]string
		core  []string
	}{{"HostConfig.MaskedPaths", &h.MaskedPaths, coreMasked}, {"HostConfig.ReadonlyPaths", &h.ReadonlyPaths, coreReadonly}} {
		if *list.paths == nil { // the engine's own
			continue
		}
		for _, p := range list.core {
			if !slices.Contains(*list.paths, p) {
				e.Refuse(list.field, "without "+p, "")
			}
		}
		for _, p := range *list.paths {
			if path.Clean(p) != p || !strings.HasPrefix(p, "/proc/") && !strings.HasPrefix(p, "/sys/") {
				e.Refuse(list.field, p, "")
			}
		}
		*list.paths = nil
	}
}

// resources: limits may be set, and not lifted.
func (e *examiner) resources(r *container.Resources, oom *int) {
	r.CPUShares, r.Memory, r.NanoCPUs, r.BlkioWeight, r.CPUPeriod, r.CPUQuota, r.CpusetCpus, r.CpusetMems = 0, 0, 0, 0, 0, 0, "", ""
	r.MemoryReservation, r.MemorySwap, r.MemorySwappiness, r.PidsLimit = 0, 0, nil, nil
	if *oom > 0 { // rather this one than others
		*oom = 0
	}
	for _, limit := range r.Ulimits {
		if limit != nil && !e.rules.Ulimit(limit.Name) {
			e.Refuse("HostConfig.Ulimits", limit.Name, "ulimits: ["+limit.Name+"]")
		}
	}
	r.Ulimits = nil
}

func (e *examiner) ports(h *container.HostConfig) {
	for port, bindings := range h.PortBindings {
		for _, b := range bindings {
			n, err := strconv.Atoi(b.HostPort)
			if b.HostPort != "" && (err != nil || !e.rules.Port(n)) {
				e.Refuse("HostConfig.PortBindings["+string(port)+"]", b.HostPort, "ports: ["+b.HostPort+"]")
			}
		}
	}
	h.PortBindings, h.PublishAllPorts = nil, false
}

// logOptions are those that say how much a file keeps.
var logOptions = []string{"max-size", "max-file", "compress", "max-buffer-size", "mode", "labels", "labels-regex", "env", "env-regex", "tag"}

func (e *examiner) logs(h *container.HostConfig) {
	driver := h.LogConfig.Type
	switch driver {
	case "", "json-file", "local", "none", "journald":
	default:
		if !slices.Contains(e.rules.LogDrivers, driver) {
			e.Refuse("HostConfig.LogConfig", driver, "log_drivers: ["+driver+"]")
		}
	}
	if !slices.Contains(e.rules.LogDrivers, driver) {
		for _, option := range slices.Sorted(maps.Keys(h.LogConfig.Config)) {
			if !slices.Contains(logOptions, option) {
				e.Refuse("HostConfig.LogConfig", option, "log_drivers: ["+driver+"]")
			}
		}
	}
	h.LogConfig = container.LogConfig{}
}

// leftover refuses what no rule has set to zero.
func (e *examiner) leftover(name string, v any) {
	value := reflect.ValueOf(v)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		switch f := value.Field(i); {
		case field.Anonymous:
			e.leftover(name, f.Interface())
		case !isEmpty(f):
			e.Refuse(name+"."+field.Name, plain(f), "")
		}
	}
}

// isEmpty: an empty list, a pointer to zero and a list of zeros say as little as none.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil() || v.Elem().Kind() != reflect.Struct && v.Elem().IsZero()
	}
	return v.IsZero()
}

func plain(v reflect.Value) string {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	return string(text)
}

// networks: of those that the order names, and of nothing else of them than an address
// and names.
func (e *examiner) networks() {
	named := map[string]bool{}
	for _, n := range e.order.Container.Networks {
		named[n.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(e.inspect.NetworkSettings.Networks)) {
		endpoint := e.inspect.NetworkSettings.Networks[name]
		switch {
		case !named[name]:
			e.Contradict("networks", "without "+name, "with "+name)
		case name == "bridge" || name == "none" || name == "host" && e.rules.HostNetwork:
		case name == "host":
			e.Refuse("NetworkSettings.Networks", name, "host_network: true")
		case !e.rules.Network(name):
			e.Refuse("NetworkSettings.Networks", name, "networks: ["+name+"]")
		}
		if endpoint == nil {
			e.Refuse("NetworkSettings.Networks["+name+"]", "null", "")
			continue
		}
		if len(endpoint.Links) > 0 {
			e.Refuse("NetworkSettings.Networks["+name+"].Links", endpoint.Links, "")
		}
		if len(endpoint.DriverOpts) > 0 { // sysctls among them
			e.Refuse("NetworkSettings.Networks["+name+"].DriverOpts", endpoint.DriverOpts, "")
		}
		delete(named, name)
	}
	for name := range named {
		e.Contradict("networks", "with "+name, "without "+name)
	}
}

// mounts: volumes of the engine's own driver without options, of a name that the order
// has; paths that a rule names; memory.
func (e *examiner) mounts() {
	for _, bind := range e.inspect.HostConfig.Binds {
		e.bindText(bind)
	}
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

// volume notes one that the configuration names.
func (e *examiner) volume(name string) {
	if !volumeForm.MatchString(name) {
		e.Refuse("volume", name, "")
	}
	e.volumes = append(e.volumes, name)
}

// bindOptions are those that change nothing outside of the container.
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
		for option := range strings.SplitSeq(fields[2], ",") {
			if !slices.Contains(allowed, option) {
				e.Refuse("HostConfig.Binds", text, "")
			}
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

// tmpfsOptions are those that neither bring devices nor rights.
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

// boundPaths are the paths of the host that a configuration mounts.
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

// straight is an error if a path of the daemon's leads over a symbolic link, which
// another container with the same mount may have made, to wherever it likes.
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
