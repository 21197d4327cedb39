// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"weir/internal/core/accept"

	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// Accept returns the rights of a container that other nodes send here: those of
// cluster.accept, without the ports where the agent listens, and the manager, if it is on
// this host.
func (c Config) Accept() accept.Rules {
	a := c.Cluster.Accept
	if a.Policy == nil {
		a.Policy = DefaultLabels().Allow // what may be said of one's own share and order
	}
	for _, address := range slices.Concat([]string{c.Cluster.Listen, c.Cluster.RegistryListen}, c.Metrics.Listen, c.Web.Listen, []string{c.Manager.Listen, c.Manager.BusListen}) {
		_, text, err := net.SplitHostPort(address)
		if port, numberErr := strconv.Atoi(text); err == nil && numberErr == nil && port > 0 {
			a.Reserved = append(a.Reserved, port)
		}
	}
	return a
}

// readAccept reads the rights of a container that other nodes send here.
func readAccept(fields node, a *accept.Rules) {
	keys := []string{"capabilities", "binds", "networks", "sysctls", "ulimits", "log_drivers", "groups", "ports", "host_network", "policy", "labels"}
	fields.fields(keys, func(key string, value node) {
		switch key {
		case "capabilities":
			a.Capabilities = readTexts(value)
		case "binds":
			a.Binds = readTexts(value)
			for _, p := range a.Binds {
				if !path.IsAbs(p) {
					value.wrong("%q is no path of the host; give an absolute one, e.g. /srv/shared", p)
				}
			}
		case "networks":
			a.Networks = readTexts(value)
		case "sysctls":
			a.Sysctls = readTexts(value)
		case "ulimits":
			a.Ulimits = readTexts(value)
		case "log_drivers":
			a.LogDrivers = readTexts(value)
		case "groups":
			a.Groups = readTexts(value)
		case "ports":
			if value.given() {
				a.Ports = []accept.PortRange{} // [] = none
			}
			for _, text := range readTexts(value) {
				r, err := accept.ParsePorts(text)
				value.refuse(err)
				a.Ports = append(a.Ports, r)
			}
		case "host_network":
			readBool(value, &a.HostNetwork)
		case "labels":
			a.Labels = readTexts(value)
			for _, pattern := range a.Labels {
				switch _, err := path.Match(pattern, ""); {
				case pattern == "" || err != nil:
					value.wrong("%q is no pattern of a label's name; write one such as org.opencontainers.*", pattern)
				case strings.HasPrefix(pattern, "weir."):
					value.wrong("%q is a label of Weir's; name its field under policy", pattern)
				}
			}
		case "policy":
			if value.given() {
				a.Policy = []string{} // [] = none
			}
			known := policy.FieldNames(policy.OnWorkload)
			for _, field := range readTexts(value) {
				if !slices.Contains(known, field) {
					value.wrong("%q is no field of a policy; the fields are %s", field, strings.Join(known, ", "))
				}
				a.Policy = append(a.Policy, field)
			}
		}
	})
}

// readMembers reads names of nodes. An empty list is not nil.
func readMembers(value node) []string {
	if !value.given() {
		return nil
	}
	list := []string{}
	for _, name := range readTexts(value) {
		value.refuse(wire.CheckNode(name))
		list = append(list, name)
	}
	return list
}

func readTexts(value node) (list []string) {
	value.items(func(item node) {
		if text, ok := item.text(); ok {
			list = append(list, text)
		}
	})
	return list
}
