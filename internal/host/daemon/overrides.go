// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
)

// Overrides are settings of the command line, which override the configuration file. Zero
// values override nothing.
type Overrides struct {
	Links     []LinkOverride // to steer, instead of those in the file
	Egress    string         // capacity of those that have none of their own here
	Ingress   string         // the same of what they receive; "" = as in the file, "none" = not steered
	Local     bool           // count what workloads receive from this host in
	Scheduler string
	Favour    string // one of plan.Favours; "" = what the file says
	Force     bool
	Backend   string
	Docker    *bool // look for containers, or do not
	Socket    string
	StateDir  string
	Metrics   []string // host:port
	Manager   string   // host:port of the cluster's manager
}

// LinkOverride is one --link DEV or --link DEV=RATE.
type LinkOverride struct {
	Device string
	Egress string // "" = Overrides.Egress, or what the file says
}

func (l LinkOverride) String() string {
	if l.Egress == "" {
		return l.Device
	}
	return l.Device + "=" + l.Egress
}

// over puts what the command line says over a configuration. The errors name
// fields of weir.yaml.
func (o Overrides) over(c config.Config) (config.Config, error) {
	switch {
	case len(o.Links) > 0:
		links, err := o.links(c)
		if err != nil {
			return config.Config{}, err
		}
		c.Links = links
	case o.Egress != "" || o.Ingress != "" || o.Local || o.Scheduler != "" || o.Favour != "" || o.Force:
		return config.Config{}, &refusal.Error{Kind: refusal.Invalid, Field: "link.device", Msg: "is missing", Remedy: "say which device --egress, --ingress, --ingress-local, --scheduler, --favour and --force are about"}
	}
	switch {
	case o.Backend == "":
	case slices.Contains(plan.Backends, o.Backend):
		c.Backend = o.Backend
	default:
		return config.Config{}, wrong("backend", o.Backend, errors.New("no such backend; write auto, bpf or tc"))
	}
	if o.Docker != nil {
		c.Docker.Enabled, c.Docker.Asked = *o.Docker, true
	}
	if len(o.Metrics) > 0 {
		c.Metrics.Listen = o.Metrics
		if err := c.Metrics.Check(); err != nil {
			return config.Config{}, wrong("metrics.listen", strings.Join(o.Metrics, ", "), err)
		}
	}
	c.Cluster.Manager = cmp.Or(o.Manager, c.Cluster.Manager)
	c.Socket = cmp.Or(o.Socket, c.Socket)
	c.StateDir = cmp.Or(o.StateDir, c.StateDir)
	return c, nil
}

// links returns the links of the command line, in its order.
func (o Overrides) links(c config.Config) ([]config.Link, error) {
	var links []config.Link
	for _, named := range o.Links {
		link, err := o.link(c, named)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(links, func(l config.Link) bool { return l.Device == link.Device }) {
			return nil, wrong("link.device", named.String(), errors.New("this device is there twice; name each once"))
		}
		links = append(links, link)
	}
	return links, nil
}

// link is a link of the command line, with what the file says of it.
func (o Overrides) link(c config.Config, named LinkOverride) (config.Link, error) {
	if err := config.CheckLink(named.Device); err != nil {
		return config.Link{}, wrong("link.device", named.Device, err)
	}
	link := config.DefaultLink(named.Device, 0)
	for _, l := range c.Links {
		if l.Device == named.Device {
			link = l
		}
	}
	for _, given := range []struct{ field, value, rate string }{
		{"link.egress", o.Egress, o.Egress}, {"link.device", named.String(), named.Egress},
	} {
		if given.rate == "" {
			continue
		}
		rate, err := policy.ParseRate(given.rate)
		if err != nil {
			return config.Link{}, wrong(given.field, given.value, err)
		}
		link.Egress = rate
	}
	if o.Ingress == "none" {
		link.Ingress = 0
	} else if o.Ingress != "" {
		rate, err := policy.ParseRate(o.Ingress)
		if err != nil {
			return config.Link{}, wrong("link.ingress", o.Ingress, err)
		}
		link.Ingress = rate
	}
	if link.IngressLocal = link.IngressLocal || o.Local; link.IngressLocal && link.Ingress == 0 {
		return config.Link{}, &refusal.Error{Kind: refusal.Invalid, Field: "link.ingress", Msg: "is missing", Remedy: "say what " + named.Device + " can receive, e.g. --ingress 300mbit, or leave --ingress-local out"}
	}
	if link.Egress == 0 {
		return config.Link{}, &refusal.Error{Kind: refusal.Invalid, Field: "link.egress", Msg: "is missing", Remedy: "say what " + named.Device + " can send, e.g. --egress 100mbit or --link " + named.Device + "=100mbit"}
	}
	if o.Scheduler != "" {
		link.Scheduler = o.Scheduler
	}
	if o.Favour != "" {
		link.Favour = plan.Favour(o.Favour)
	}
	link.Force = link.Force || o.Force
	if err := link.CheckZones(); err != nil { // the rate above may be too low for them
		return config.Link{}, wrong("link.egress", link.Egress.String(), err)
	}
	if err := link.Plan().Check(); err != nil {
		if mistake := api.Mistake(err); mistake.Field == "favour" {
			return config.Link{}, wrong("link.favour", link.Favour, err)
		}
		return config.Link{}, wrong("link.scheduler", o.Scheduler, err)
	}
	return link, nil
}

// wrong is a mistake in a field that was given beside the configuration.
func wrong(field, value string, err error) error {
	e := api.Mistake(err)
	e.Field, e.Value, e.Msg = field, value, fmt.Sprintf("%q: %s", value, e.Msg)
	return e
}
