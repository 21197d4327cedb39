// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Accept says what a container may have that other nodes send here, beyond what any
// container of the engine has by default. A field of a container's configuration that
// neither the defaults nor a rule name is refused, one that this build does not know
// included. The zero value is strict.
//
// It is the target's own judgement: the source examines a container too (Obstacles),
// but only to save a useless move.
type Accept struct {
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

// PortRange is a range of ports, both ends included.
type PortRange struct{ From, To int }

// DefaultPorts are the ports of the host that a container may publish: none that an
// unprivileged process could not take.
var DefaultPorts = []PortRange{{1024, 65535}}

// defaultCapabilities lists the capabilities that Docker and Podman give any container;
// Podman gives fewer.
var defaultCapabilities = []string{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
	"NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}

// harmlessUlimits limit their own container only, however high they are.
var harmlessUlimits = []string{"core", "cpu", "data", "fsize", "nofile", "nproc", "rss", "stack"}

// ParsePorts reads "80" or "1024-65535".
func ParsePorts(text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	from, err := strconv.Atoi(first)
	to := from
	if err == nil && isRange {
		to, err = strconv.Atoi(last)
	}
	if err != nil || from < 1 || to > 65535 || from > to {
		return PortRange{}, fmt.Errorf("%q is no range of ports; write such as 443 or 1024-65535", text)
	}
	return PortRange{from, to}, nil
}

func (r PortRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Capability reports whether a container may have a capability, with or without CAP_.
func (a Accept) Capability(name string) bool {
	name = strings.TrimPrefix(strings.ToUpper(name), "CAP_")
	same := func(own string) bool { return strings.TrimPrefix(strings.ToUpper(own), "CAP_") == name }
	return name != "ALL" && (slices.Contains(defaultCapabilities, name) || slices.ContainsFunc(a.Capabilities, same))
}

// Bind reports whether a path of the host may be in a container. That no symbolic link
// leads out of it is the engine's to check.
func (a Accept) Bind(source string) bool {
	if !path.IsAbs(source) || path.Clean(source) != source {
		return false
	}
	return slices.ContainsFunc(a.Binds, func(own string) bool {
		own = path.Clean(own)
		return source == own || own == "/" || strings.HasPrefix(source, own+"/")
	})
}

// Network reports whether a container may be in a user-defined network.
func (a Accept) Network(name string) bool {
	return slices.Contains(a.Networks, "*") || slices.Contains(a.Networks, name)
}

// Port reports whether a container may publish a port of the host; 0 is one that the
// engine chooses. A container that is started before the agent would keep the agent from
// its own ports, so no range includes those.
func (a Accept) Port(port int) bool {
	ranges := a.Ports
	if ranges == nil {
		ranges = DefaultPorts
	}
	if slices.Contains(a.Reserved, port) {
		return slices.Contains(ranges, PortRange{port, port})
	}
	return port == 0 || slices.ContainsFunc(ranges, func(r PortRange) bool { return r.From <= port && port <= r.To })
}

// Ulimit reports whether a container may have a limit of its own.
func (a Accept) Ulimit(name string) bool {
	return slices.Contains(harmlessUlimits, name) || slices.Contains(a.Ulimits, name)
}

// refusable bounds how many findings are listed: a hostile source may send many.
const refusable = 20

// Examination collects what a target does not accept.
type Examination struct{ list []Finding }

// Refuse notes a field with its value. rule is the key below cluster.accept that would
// allow it, "" if none does.
func (x *Examination) Refuse(field string, value any, rule string) {
	remedy := "start it without; no rule of a node allows it"
	if rule != "" {
		remedy = "an operator of this node may allow it: cluster.accept." + rule + " in weir.yaml"
	}
	x.Note("not-accepted", fmt.Sprintf("%s is %.120s, which this node does not accept from others", field, show(value)), remedy)
}

// Contradict notes that two parts of a description say different things.
func (x *Examination) Contradict(field string, says, other any) {
	x.Note("contradiction", fmt.Sprintf("%s is %.80s in the order and %.80s in the configuration", field, show(says), show(other)), "run the same Weir on all nodes")
}

// Note adds a refusal.
func (x *Examination) Note(code, msg, remedy string) {
	if len(x.list) < refusable {
		x.list = append(x.list, refuse(code, msg, remedy))
	}
}

// Findings returns all findings, nil if everything is accepted.
func (x *Examination) Findings() []Finding { return x.list }

// NotAccepted is nil for no findings, else one definite answer with all of them.
func NotAccepted(list []Finding) error {
	if len(list) == 0 {
		return nil
	}
	return &Error{Code: CodeNotAccepted, Msg: joined(list)}
}

// Refusal is nil for no findings, else one definite answer with all of them: the step is not
// taken.
func Refusal(list []Finding) error {
	if len(list) == 0 {
		return nil
	}
	return &Error{Code: CodeRefused, Msg: joined(list)}
}

func joined(list []Finding) string {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}

func show(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprint(value)
}
