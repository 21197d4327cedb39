// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"weir/internal/core/invalid"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/quota"
)

// Parse checks the text of a file; path is for messages. Beside an *Error it returns the
// correct rest of the file.
func Parse(file string, text []byte) (Config, error) {
	c := Default()
	c.Path = file
	root, err := parseTree(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(root.tree.problems) == 0 {
		c.read(root)
	}
	if problems := root.tree.problems; len(problems) > 0 {
		sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
		return c, &Error{Path: file, Problems: problems}
	}
	c.Warnings = inFile(file, root.tree.warnings)
	return c, nil
}

func (c *Config) read(root node) {
	keys := []string{"links", "defaults", "workloads", "groups", "attach", "docker", "labels", "sdn", "cluster", "manager", "backend",
		"accept_gaps", "mark_mask", "profile", "socket", "group", "view_group", "metrics", "tell", "web", "state_dir"}
	root.fields(keys, func(key string, value node) {
		switch key {
		case "links":
			c.readLinks(value)
			c.NoLink = len(c.Links) == 0 && value.isEmptyList()
		case "defaults":
			c.Defaults = readLayer(value, policy.OnWorkload)
		case "workloads":
			c.readRules(value)
		case "groups":
			c.readGroups(value)
		case "attach":
			c.readAttach(value)
		case "docker":
			c.readDocker(value)
		case "labels":
			c.readLabels(value)
		case "sdn":
			c.readSDN(value)
		case "cluster":
			c.readCluster(value)
		case "manager":
			c.readManager(value)
		case "backend":
			readChoice(value, &c.Backend, plan.Backends...)
		case "accept_gaps":
			readBool(value, &c.AcceptGaps)
		case "mark_mask":
			readMask(value, &c.MarkMask, &c.MarkAuto)
		case "profile":
			readChoice(value, &c.Profile, plan.Profiles...)
		case "socket":
			readPath(value, &c.Socket)
		case "group":
			readText(value, &c.Group)
		case "view_group":
			readText(value, &c.ViewGroup)
		case "metrics":
			c.Metrics.read(value)
		case "tell":
			c.Tell.read(value)
		case "web":
			c.Web.read(value, "web", "127.0.0.1:7480")
		case "state_dir":
			readPath(value, &c.StateDir)
		}
	})
	c.attachKnown()
	c.zonesKnown(root.tree.zones)
	c.quotasCounted(root.tree.quotas)
}

// quotasCounted remarks quotas of what is received, if no link counts that. The links of a switch
// and of the command line are not known here.
func (c *Config) quotasCounted(received []quotaAt) {
	counts := func(l Link) bool {
		return slices.ContainsFunc(l.Ends(), func(end Link) bool { return end.Direction == policy.Ingress })
	}
	if len(c.Links) == 0 || c.SDN.OVSDB != "" || slices.ContainsFunc(c.Links, counts) {
		return
	}
	for _, q := range received {
		q.in.warn(&invalid.Error{Field: "quota.ingress", Value: q.size.String(), Msg: "no link has an ingress, so that what is received is not counted",
			Remedy: "give a link an ingress rate, or take the ingress out of the quota"})
	}
}

// quotaAt is a quota of what is received, and the policy that it is in.
type quotaAt struct {
	in   node
	size quota.Size
}

func (c *Config) readLinks(list node) {
	list.items(func(item node) {
		link, zones, before := DefaultLink("", 0), item, len(item.tree.problems)
		item.fields([]string{"device", "egress", "ingress", "ingress_local", "reservable", "scheduler", "favour", "overhead", "force", "zones"}, func(key string, value node) {
			switch key {
			case "device":
				readDevice(item, value, &link.Device)
			case "egress":
				readEgress(item, value, &link.Egress)
			case "ingress":
				if text, _ := value.text(); text != "none" {
					readRate(value, &link.Ingress)
				}
			case "ingress_local":
				readBool(value, &link.IngressLocal)
			case "reservable":
				readShare(value, &link.Reservable)
			case "scheduler":
				readChoice(value, &link.Scheduler, plan.Schedulers...)
			case "favour":
				readChoice(value, &link.Favour, plan.Favours...)
				link.Favour = plan.Favour(link.Favour)
			case "overhead":
				readFraming(value, &link.Framing)
			case "force":
				readBool(value, &link.Force)
			case "zones":
				link.Zones = readZones(value)
				zones = value
			}
		})
		if len(item.tree.problems) == before {
			zones.refuse(link.CheckZones())
		}
		if link.Favour != plan.FavourNeither && link.Scheduler != plan.SchedulerFair {
			item.wrong("favour: %s is of the scheduler fair only; leave it out, or leave scheduler: %s out", link.Favour, link.Scheduler)
		}
		if slices.ContainsFunc(c.Links, func(l Link) bool { return l.Device == link.Device && l.Device != "" }) {
			item.wrong("device %q is there twice; one entry for each device", link.Device)
		}
		c.Links = append(c.Links, link)
	})
}

func readDevice(item, value node, into *string) {
	text, ok := value.text()
	if !value.given() {
		item.wrong("device is missing; name the network device, e.g. device: eth0")
	}
	if !ok {
		return
	}
	value.refuse(CheckLink(text))
	*into = text
}

// CheckLink refuses a text that cannot be the name of a link.
func CheckLink(name string) error {
	if name == "lo" {
		return &invalid.Error{Field: "device", Value: name, Msg: "is the loopback device, by which no packet leaves this host",
			Remedy: "name the uplink, as ip route show default has it"}
	}
	return CheckDevice(name)
}

// CheckDevice refuses a text that cannot be the name of a network device.
func CheckDevice(name string) error {
	if name == "" || len(name) > 15 || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\n") {
		return &invalid.Error{Field: "device", Value: name, Msg: "cannot be a network device",
			Remedy: "write a name as ip link shows it, 1 to 15 characters without slash, colon or blank"}
	}
	return nil
}

func readEgress(item, value node, into *policy.Rate) {
	if !value.given() {
		item.wrong("egress is missing; say what the link can send, e.g. egress: 100mbit")
		return
	}
	readRate(value, into)
}

func readRate(value node, into *policy.Rate) {
	if text, ok := value.text(); ok {
		rate, err := policy.ParseRate(text)
		value.refuse(err)
		*into = rate
	}
}

// readLayer reads the fields of a policy that may stand in a place.
func readLayer(from node, on policy.Place) policy.Change {
	var layer policy.Change
	before := len(from.tree.problems)
	known := policy.FieldNames(on)
	if on == policy.OnWorkload {
		known = append(known, "ingress")
	}
	from.fields(known, func(field string, value node) { readField(&layer, field, value) })
	if len(from.tree.problems) == before {
		from.refuse(layer.Check()) // min against max, queues against discipline
	}
	if q := layer.To().Quota; q != nil && q.Ingress > 0 {
		from.tree.quotas = append(from.tree.quotas, quotaAt{from, q.Ingress})
	}
	if layer.Gives("queues") && len(from.tree.problems) == before {
		warnings, _ := policy.CheckRules(layer.To().Queues) // layer.Check has reported a mistake
		for _, w := range warnings {
			from.warn(w)
		}
	}
	return layer
}

func readField(layer *policy.Change, field string, value node) {
	if field == "ingress" {
		if value.given() {
			layer.Ingress = new(readLayer(value, policy.OnIngress))
		}
		return
	}
	if field == "zones" && value.given() {
		readZonePolicy(layer, field, value)
		return
	}
	switch value.ast.(type) {
	case *ast.MappingNode, *ast.SequenceNode:
		if field == "queues" {
			layer.Set(field, func(p *policy.Policy) { p.Queues = readQueues(value) })
			return
		}
		if field == "when" {
			list, err := policy.WhenFrom(value.plain())
			value.refuse(err)
			layer.Set(field, func(p *policy.Policy) { p.When = list })
			return
		}
		if field == "quota" {
			q, err := policy.QuotaFrom(value.plain())
			value.refuse(err)
			layer.Set(field, func(p *policy.Policy) { p.Quota = q })
			return
		}
		if field == "aqm" {
			layer.Set(field, func(p *policy.Policy) { p.AQM = readAQM(value) })
			return
		}
	}
	if text, ok := value.text(); ok {
		value.refuse(layer.Put(field, text))
	}
}

// ReadField reads one field of a policy in another file; path is its place there, such as
// "workloads.web.queues". It returns the mistakes.
func ReadField(layer *policy.Change, field string, value ast.Node, path string) []Mistake {
	n := node{tree: &tree{anchors: map[string]ast.Node{}}, ast: value, path: path}
	readField(layer, field, n.resolve())
	return n.tree.problems
}

func (c *Config) readRules(rules node) {
	rules.each(func(pattern string, _ *token.Token, value node) {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			value.wrong("%q is no pattern; give a workload's name, or a glob such as \"web-*\"", pattern)
		}
		c.Workloads = append(c.Workloads, Rule{Pattern: pattern, Layer: readLayer(value, policy.OnWorkload)})
	})
}

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// CheckName refuses a text that cannot be the name of an attached workload.
func CheckName(name string) error {
	if !nameForm.MatchString(name) || len(name) > 64 {
		return &invalid.Error{Field: "name", Value: name, Msg: "cannot be a workload's name",
			Remedy: "use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first"}
	}
	if name == HostName {
		return &invalid.Error{Field: "name", Value: name, Msg: "is the host itself", Remedy: "choose another name"}
	}
	return nil
}

// The names of namespaces and of pods (RFC 1123, as Kubernetes has them).
var podForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// CheckPodName refuses a text that cannot be the name of a pod's workload, NAMESPACE/POD.
func CheckPodName(name string) error {
	if !podForm.MatchString(name) {
		return &invalid.Error{Field: "name", Value: name, Msg: "cannot be a pod's name",
			Remedy: "write NAMESPACE/POD as Kubernetes has them, such as default/web-0"}
	}
	return nil
}

// HostName is the workload of all packets without a mark.
const HostName = "host"

func (c *Config) readDocker(fields node) {
	fields.fields([]string{"enabled", "socket"}, func(key string, value node) {
		c.Docker.Asked = c.Docker.Asked || value.given()
		switch key {
		case "enabled":
			readBool(value, &c.Docker.Enabled)
		case "socket":
			readPath(value, &c.Docker.Socket)
		}
	})
}

func (c *Config) readLabels(fields node) {
	fields.fields([]string{"allow", "images"}, func(key string, value node) {
		if key == "images" {
			readBool(value, &c.Labels.Images)
			return
		}
		if !value.given() {
			return
		}
		c.Labels.Allow = []string{}
		value.items(func(item node) {
			var field string
			readChoice(item, &field, policy.FieldNames(policy.OnWorkload)...)
			c.Labels.Allow = append(c.Labels.Allow, field)
		})
	})
}

func (c *Config) readSDN(fields node) {
	fields.fields([]string{"ovsdb", "tls"}, func(key string, value node) {
		switch key {
		case "ovsdb":
			if text, ok := value.text(); ok && text != "" && text != "off" {
				readAddress(value, &c.SDN.OVSDB)
			}
		case "tls":
			readSwitchTLS(value, &c.SDN.TLS)
		}
	})
	fields.refuse(CheckSwitchTLS(c.SDN.TLS, c.SDN.OVSDB))
}
