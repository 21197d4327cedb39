// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path"
	"slices"
	"strings"

	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/tlsfile"
)

// DefaultPath is where the configuration is looked for.
const DefaultPath = "/etc/weir/weir.yaml"

// Config is a checked weir.yaml.
type Config struct {
	Path      string // where it was read from, "" if it was not
	Links     []Link
	Defaults  policy.Change // for every workload
	Workloads []Rule        // by name or pattern, in the file's order
	Groups    []Group       // in the file's order
	Attach    []Attachment  // what is a workload beside containers
	Docker    Docker
	SDN       SDN
	Labels    Labels
	Cluster   Cluster
	Manager   Manager
	// AcceptGaps takes what the backend does not hold on this kernel of this file and of
	// labels; else a reload that adds such a thing is refused.
	AcceptGaps bool
	Backend    string // plan.BackendAuto, BackendBPF or BackendTC
	MarkMask   uint32 // bits of skb->mark that carry the class
	Socket     string // where the API listens
	Group      string // the group that may use the socket besides root
	ViewGroup  string // the group that may read and change nothing; "" = no such group
	Metrics    Metrics
	StateDir   string // where run-time changes are kept
	// Warnings are about rules that overlap, a line for each with its place.
	Warnings []string
}

// Link is one network device that is steered: what it sends, and what it receives
// for workloads if it is said how much that can be.
type Link struct {
	Device     string
	Egress     policy.Rate // capacity, wire bits per second
	Ingress    policy.Rate // the same of what it receives; 0 = that is not steered
	Reservable float64     // share of a capacity that mins may take, 0 < Reservable <= 1
	Scheduler  string      // one of plan.Schedulers
	Overhead   int         // bytes added to each packet's length
	Force      bool        // replace a qdisc that somebody else set
	// IngressLocal counts what workloads receive from this host and its other
	// workloads as received by the link.
	IngressLocal bool
	// Direction is policy.Ingress in the second of Ends, else "".
	Direction policy.Direction
}

// Ends are the link as one for each direction that is steered.
func (l Link) Ends() []Link {
	ends := []Link{l}
	if l.Ingress != 0 {
		l.Direction = policy.Ingress
		ends = append(ends, l)
	}
	return ends
}

// Name is what tells one of Ends from others: "eth0", "eth0 ingress".
func (l Link) Name() string { return l.Plan().Name() }

// Capacity is what the link carries in its direction.
func (l Link) Capacity() policy.Rate {
	if l.Direction == policy.Ingress {
		return l.Ingress
	}
	return l.Egress
}

// Plan is the link, one of Ends, as the plan has it.
func (l Link) Plan() plan.Link {
	return plan.Link{
		Device:    l.Device,
		Direction: l.Direction,
		Capacity:  l.Capacity(),
		Reserve:   l.Reservable,
		Scheduler: l.Scheduler,
		Overhead:  l.Overhead,
	}
}

// Rule gives a layer to the workloads whose name matches a pattern.
type Rule struct {
	Pattern string // a name, or a glob as in a shell: "web-*"
	Layer   policy.Change
}

// exact reports whether the pattern is a plain name.
func (r Rule) exact() bool { return !isPattern(r.Pattern) }

// LayerFor is what the file says of one workload: every glob that matches, in
// the file's order, and then the entries that spell the name out.
func (c Config) LayerFor(name string) policy.Change {
	var layer policy.Change
	for _, exact := range []bool{false, true} {
		for _, rule := range c.Workloads {
			if rule.exact() != exact {
				continue
			}
			if ok, _ := path.Match(rule.Pattern, name); ok {
				layer = layer.Over(rule.Layer)
			}
		}
	}
	return layer
}

// Named are the workloads, but for the host, that the file calls by their whole name,
// under workloads: or attach:, each once, in the file's order.
func (c Config) Named() []string {
	var names []string
	add := func(name string) {
		if name != "" && name != HostName && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, rule := range c.Workloads {
		if rule.exact() {
			add(rule.Pattern)
		}
	}
	for _, at := range c.Attach {
		add(at.Name)
	}
	return names
}

// Group is a group of workloads with what the file says of it.
type Group struct {
	Name  string
	Layer policy.Change // fields on groups
}

// Docker says whether and where containers are looked for.
type Docker struct {
	Enabled bool
	Socket  string
}

// Labels says what the labels of containers may say of their policy.
type Labels struct {
	Allow  []string // names of fields; each for ingress as well
	Images bool     // labels that come with an image count, too
}

// Allows reports whether a label may say a field, by its name in policy.AllNames.
func (l Labels) Allows(field string) bool {
	return slices.Contains(l.Allow, strings.TrimPrefix(field, "ingress."))
}

// DefaultLabels allow what concerns a workload's own share and order. A group is
// shared with others, and a DSCP means something to the network outside.
func DefaultLabels() Labels {
	var l Labels
	for _, f := range policy.Fields(policy.OnWorkload) {
		if !f.Guarded {
			l.Allow = append(l.Allow, f.Name)
		}
	}
	return l
}

// SDN says which switch's ports are links as well, as its database has them.
type SDN struct {
	OVSDB string        // address of Open vSwitch's database, "" = none
	TLS   tlsfile.Files // for an address ssl:HOST:PORT
}

// Default is the configuration of an empty file. Every default of the agent
// stands here.
func Default() Config {
	return Config{
		Cluster:   DefaultCluster(),
		Manager:   DefaultManager(),
		Labels:    DefaultLabels(),
		Docker:    Docker{Enabled: true, Socket: "/var/run/docker.sock"},
		Backend:   plan.BackendAuto,
		MarkMask:  0xffff0000,
		Socket:    "/run/weir/weir.sock",
		Group:     "weir",
		ViewGroup: "weir-view",
		StateDir:  "/var/lib/weir",
	}
}

// DefaultLink is a link of which only the device and the rate are given.
func DefaultLink(device string, egress policy.Rate) Link {
	return Link{Device: device, Egress: egress, Reservable: 1, Scheduler: plan.SchedulerFair}
}

// Overheads are the names that a link's overhead can be given by, in bytes on
// top of what the kernel counts (which begins with the 14 bytes of the Ethernet
// header). They are tc-cake(8)'s, less those 14 bytes.
var Overheads = map[string]int{
	"none":        0,
	"ethernet":    24, // preamble 8, checksum 4, gap 12
	"docsis":      4,  // checksum
	"pppoe-ptm":   16,
	"bridged-ptm": 8,
}
