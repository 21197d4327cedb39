// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"weir/internal/cluster/migrate"
	"weir/internal/core/accept"
	"weir/internal/core/bound"
	"weir/internal/core/wire"
)

// What a target accepts. The configuration comes from another node, which may be
// hostile, and the engine here obeys whatever is in it: Privileged, a bind of / or the
// host's process namespace make the container root of this host. So every field is one
// of these:
//
//   - vetted: a rule below says which values are harmless, or that an operator allows it;
//   - limits and settings inside the container only: any value;
//   - everything else: only its zero value, fields of later engines included.
//
// The vetting works on a copy of the configuration. A field that a rule has passed
// is set to zero there, and a field that is left over at the end is refused.

// host has the facts about the target itself that matter to the examination.
type host struct {
	runtime string // its default
	cgroups string // "1" or "2"
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// own are names of workloads that are no containers.
var own = []string{"host", "migration"}

// decode reads a configuration from elsewhere. A field that this build does not know
// may grant what it cannot judge.
func decode(text []byte) (c config, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = bound.Lists("", text, bound.Values, bound.Values); err == nil {
		err = d.Decode(&c)
	}
	if err != nil {
		return c, fmt.Errorf("its configuration cannot be read: %w", err)
	}
	if c.Inspect.Config == nil || c.Inspect.ContainerJSONBase == nil || c.Inspect.HostConfig == nil || c.Inspect.NetworkSettings == nil {
		return c, errors.New("its configuration lacks Config, HostConfig or NetworkSettings and describes no Docker container")
	}
	return c, nil
}

// examine says what of an order's container this node does not accept. Pure.
func examine(o migrate.MoveSpec, rules accept.Rules, at host) []migrate.PreflightFinding {
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
	rules   accept.Rules
	at      host
	order   migrate.MoveSpec
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
	if c.Engine != wire.EngineDocker {
		e.Contradict("engine", c.Engine, wire.EngineDocker)
	}
}

// config passes the settings inside the container: all of them are known, and
// harmless to its host.
func (e *examiner) config() {
	c := *e.inspect.Config
	c.Hostname, c.Domainname, c.User, c.Env, c.Cmd, c.Entrypoint, c.WorkingDir, c.Shell = "", "", "", nil, nil, nil, "", nil
	c.AttachStdin, c.AttachStdout, c.AttachStderr, c.Tty, c.OpenStdin, c.StdinOnce, c.ArgsEscaped = false, false, false, false, false, false, false
	c.ExposedPorts, c.Healthcheck, c.Image, c.Volumes, c.NetworkDisabled, c.MacAddress = nil, nil, "", nil, false, "" //nolint:staticcheck // engines with API 1.43 and older send MacAddress
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
