// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path"
	"slices"
	"strings"

	"weir/internal/base/tlsfile"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/framing"
	"weir/internal/core/policy/zone"
)

// DefaultPath is the path of the configuration file.
const DefaultPath = "/etc/weir/weir.yaml"

// Config is a checked weir.yaml.
type Config struct {
	Path      string // where it was read from, "" if it was not
	Links     []Link
	NoLink    bool          // links: [] says that nothing is steered yet
	Defaults  policy.Change // for every workload
	Workloads []Rule        // by name or pattern, in the file's order
	Groups    []Group       // in the file's order
	Attach    []Attachment  // workloads beside containers
	Docker    Docker
	SDN       SDN
	Labels    Labels
	Cluster   Cluster
	Manager   Manager
	// AcceptGaps accepts settings of this file and of labels that the backend does not
	// hold on this kernel; without it a reload that adds such a setting is refused.
	AcceptGaps bool
	Backend    string // plan.BackendAuto, BackendBPF or BackendTC
	MarkMask   uint32 // bits of skb->mark that carry the class, too; 0 = none
	MarkAuto   bool   // the agent chooses MarkMask, which is 0 in the file
	Cilium     bool   // it is on this host; not of the file
	Profile    string // one of plan.Profiles
	Socket     string // where the API listens
	Group      string // the group that may use the socket besides root
	ViewGroup  string // the group that may read and change nothing; "" = no such group
	Metrics    Metrics
	Tell       Tell
	Web        Web
	StateDir   string // where run-time changes are kept
	// Warnings has a line with its place for each rule that overlaps another.
	Warnings []string
}

// Carrier returns where packets carry their class.
func (c Config) Carrier() plan.Carrier {
	return plan.Carrier{Mask: plan.Mask(c.MarkMask), Cilium: c.Cilium}
}

// Link is one steered network device: the traffic that it sends, and the traffic that it
// receives for workloads if the file gives a rate for it.
type Link struct {
	Device     string
	Egress     policy.Rate     // capacity, wire bits per second
	Ingress    policy.Rate     // the same of what it receives; 0 = that is not steered
	Reservable float64         // share of a capacity that mins may take, 0 < Reservable <= 1
	Scheduler  string          // one of plan.Schedulers
	Favour     string          // what fair's batches favour: plan.FavourNeither, FavourLatency, FavourCPU
	Framing    framing.Framing // what the line takes of each frame
	Force      bool            // replace a qdisc that another program set
	Switch     bool            // replace one that Open vSwitch has set; the file does not say so
	// IngressLocal counts what workloads receive from this host and its other
	// workloads as received by the link.
	IngressLocal bool
	Zones        []zone.Zone // what lies behind the device, by addresses; none = it is not told apart
	// Direction is policy.Ingress in Ends of that direction, else "".
	Direction policy.Direction
	// Zone is the zone's name in Ends of a zone with a capacity of its own, which Egress and
	// Ingress are then.
	Zone string
}

// Ends returns one link for each steered direction of the link and of its zones, what no zone
// has a capacity for first.
func (l Link) Ends() []Link {
	ends := []Link{l}
	received := l.Ingress
	for _, z := range l.Zones {
		received -= min(received, policy.Rate(z.Ingress))
	}
	if received != 0 {
		rest := l
		rest.Direction, rest.Ingress = policy.Ingress, received
		ends = append(ends, rest)
	}
	for _, z := range l.Zones {
		end := l
		end.Zone, end.Egress, end.Ingress = z.Name, policy.Rate(z.Egress), policy.Rate(z.Ingress)
		if end.Egress != 0 {
			ends = append(ends, end)
		}
		if end.Ingress != 0 {
			end.Direction = policy.Ingress
			ends = append(ends, end)
		}
	}
	return ends
}

// Classes returns for how many zones one of Ends has a class beside those of workloads.
func (l Link) Classes() int {
	n := 0
	for _, z := range l.Zones {
		if z.Egress != 0 && l.Zone == "" && l.Direction != policy.Ingress {
			n++
		}
	}
	return n
}

// own returns the capacity that a zone has of its own in the link's direction.
func (l Link) own(z zone.Zone) uint64 {
	if l.Direction == policy.Ingress {
		return z.Ingress
	}
	return z.Egress
}

// Area returns the addresses of one of Ends, nil if it has all that are left by the others.
func (l Link) Area() *zone.Area {
	divided := slices.ContainsFunc(l.Zones, func(z zone.Zone) bool { return l.own(z) != 0 })
	if !divided || l.Zone == "" && l.Direction != policy.Ingress {
		return nil
	}
	return new(zone.AreaOf(l.Zones, l.Zone, l.own))
}

// part returns the name of the zone that one of Ends is, or that is part of it, "" if there is
// none.
func (l Link) part() string {
	if l.Zone != "" {
		return l.Zone
	}
	for _, z := range l.Zones {
		if l.own(z) == 0 {
			return z.Name
		}
	}
	return ""
}

// aside reports whether one of Ends is not the default zone's.
func (l Link) aside() bool {
	standard := zone.DefaultOf(l.Zones)
	if l.Zone == "" {
		return standard != nil && l.own(*standard) != 0
	}
	return standard == nil || standard.Name != l.Zone
}

// Name returns the name of one of Ends: "eth0", "eth0 ingress".
func (l Link) Name() string { return l.Plan().Name() }

// Place returns the device, and the zone if it is one: "eth0", "eth0 wan".
func (l Link) Place() string { return l.Plan().Place() }

// Capacity returns the rate of the link in its direction, wire bits per second.
func (l Link) Capacity() policy.Rate {
	if l.Direction == policy.Ingress {
		return l.Ingress
	}
	return l.Egress
}

// Plan returns the link, one of Ends, as the plan has it.
func (l Link) Plan() plan.Link {
	return plan.Link{
		Device:    l.Device,
		Zone:      l.Zone,
		Part:      l.part(),
		Aside:     l.aside(),
		Direction: l.Direction,
		Capacity:  l.Capacity(),
		Reserve:   l.Reservable,
		Scheduler: l.Scheduler,
		Favour:    l.Favour,
		Framing:   l.Framing,
	}
}

// Rule gives a layer to the workloads whose name matches a pattern.
type Rule struct {
	Pattern string // a name, or a glob as in a shell: "web-*"
	Layer   policy.Change
}

// exact reports whether the pattern is a plain name.
func (r Rule) exact() bool { return !isPattern(r.Pattern) }

// LayerFor returns the layer of one workload: every glob that matches, in the file's
// order, and then the entries that spell the name out.
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

// Named returns the workloads, but for the host, that the file calls by their whole name,
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

// Group is a group of workloads with its fields in the file.
type Group struct {
	Name  string
	Layer policy.Change // fields on groups
}

// Docker holds the settings of the search for containers.
type Docker struct {
	Enabled bool
	Asked   bool // the file or a flag says something of the engine, so one should be there
	Socket  string
}

// Labels selects the fields that the labels of containers may set.
type Labels struct {
	Allow  []string // names of fields; each for ingress as well
	Images bool     // labels that come with an image count, too
}

// Allows reports whether a label may say a field, by its name in policy.AllNames.
func (l Labels) Allows(field string) bool {
	return slices.Contains(l.Allow, strings.TrimPrefix(field, "ingress."))
}

// DefaultLabels allows the fields that concern a workload's own share and order. A group
// is shared with others, and a DSCP means something to the network outside.
func DefaultLabels() Labels {
	var l Labels
	for _, f := range policy.Fields(policy.OnWorkload) {
		if !f.Guarded {
			l.Allow = append(l.Allow, f.Name)
		}
	}
	return l
}

// SDN names the switch whose ports are links as well, as its database describes them.
type SDN struct {
	OVSDB string        // address of Open vSwitch's database, "" = none
	TLS   tlsfile.Files // for an address ssl:HOST:PORT
}

// Default returns the configuration of an empty file. It holds every default of the
// agent.
func Default() Config {
	return Config{
		Cluster:   DefaultCluster(),
		Manager:   DefaultManager(),
		Labels:    DefaultLabels(),
		Tell:      DefaultTell(),
		Docker:    Docker{Enabled: true, Socket: "/var/run/docker.sock"},
		Backend:   plan.BackendAuto,
		Profile:   plan.ProfileFull,
		Socket:    "/run/weir/weir.sock",
		Group:     "weir",
		ViewGroup: "weir-view",
		StateDir:  "/var/lib/weir",
	}
}

// DefaultLink returns a link with this device and rate, and defaults in all other fields.
func DefaultLink(device string, egress policy.Rate) Link {
	return Link{Device: device, Egress: egress, Reservable: 1, Scheduler: plan.SchedulerFair}
}
