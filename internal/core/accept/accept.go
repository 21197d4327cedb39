// SPDX-License-Identifier: Apache-2.0

// Package accept holds what a container may have that another node sends: the rules of
// cluster.accept in weir.yaml, and the questions that they answer.
package accept

import (
	"path"
	"slices"
	"strings"
)

// Rules says what a container may have that other nodes send here, beyond what any
// container of the engine has by default. A field of a container's configuration that
// neither the defaults nor a rule name is refused, one that this build does not know
// included. The zero value is strict.
//
// It is the target's own judgement: the source examines a container too (Obstacles),
// but only to save a useless move.
type Rules struct {
	Capabilities []string    // beyond the engine's default, e.g. NET_ADMIN
	Binds        []string    // absolute paths of the host, with all below them
	Networks     []string    // user-defined networks by name; "*" = all
	Sysctls      []string    // by name
	Ulimits      []string    // by name, beyond the harmless ones
	LogDrivers   []string    // beyond json-file, local, none, journald without options
	Groups       []string    // supplementary groups, as the configuration names them
	Ports        []PortRange // of the host; nil = DefaultPorts
	HostNetwork  bool        // the host's own network namespace
	Policy       []string    // fields of the policy that comes with it, by settings and by labels; nil = all but group and dscp
	Labels       []string    // patterns of other labels that come with it; the rest stays behind
	Reserved     []int       // ports of the agent's and the manager's own, which Ports has to name one by one
}

// defaultCapabilities lists the capabilities that Docker and Podman give any container;
// Podman gives fewer.
var defaultCapabilities = []string{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}

// harmlessUlimits limit their own container only, however high they are.
var harmlessUlimits = []string{"core", "cpu", "data", "fsize", "nofile", "nproc", "rss", "stack"}

// Capability reports whether a container may have a capability, with or without CAP_.
func (a Rules) Capability(name string) bool {
	name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	same := func(own string) bool { return strings.TrimPrefix(strings.ToUpper(own), "CAP_") == name }
	return name != "ALL" && (slices.Contains(defaultCapabilities, name) || slices.ContainsFunc(a.Capabilities, same))
}

// Bind reports whether a path of the host may be in a container. That no symbolic link
// leads out of it is the engine's to check.
func (a Rules) Bind(source string) bool {
	if !path.IsAbs(source) || path.Clean(source) != source {
		return false
	}
	return slices.ContainsFunc(a.Binds, func(own string) bool {
		own = path.Clean(own)
		return source == own || own == "/" || strings.HasPrefix(source, own+"/")
	})
}

// Network reports whether a container may be in a user-defined network.
func (a Rules) Network(name string) bool {
	return slices.Contains(a.Networks, "*") || slices.Contains(a.Networks, name)
}

// Ulimit reports whether a container may have a limit of its own.
func (a Rules) Ulimit(name string) bool {
	return slices.Contains(harmlessUlimits, name) || slices.Contains(a.Ulimits, name)
}
