// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

// ports of the host: those that a rule names.
func (e *examiner) ports(h *container.HostConfig) {
	if says, is := e.order.Container.Ports, portsOf(e.inspect); !slices.Equal(slices.Sorted(slices.Values(says)), is) {
		e.Contradict("ports", strings.Join(says, " "), strings.Join(is, " "))
	}
	for port, bindings := range h.PortBindings {
		field := "HostConfig.PortBindings[" + string(port) + "]"
		for _, b := range bindings {
			n, err := strconv.Atoi(b.HostPort)
			if b.HostPort != "" && (err != nil || !e.rules.Port(n)) {
				e.Refuse(field, b.HostPort, "ports: ["+b.HostPort+"]")
			}
		}
	}
	h.PortBindings, h.PublishAllPorts = nil, false
}

// networks have to be the ones that the order names. A container may ask for an address
// and for names in them, and for nothing else.
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
		e.address("NetworkSettings.Networks["+name+"].IPAMConfig", endpoint.IPAMConfig)
		delete(named, name)
	}
	for name := range named {
		e.Contradict("networks", "with "+name, "without "+name)
	}
}

// address refuses a text that is no address of a network's. Whether another
// container has the address is for the engine to see (neighbours).
func (e *examiner) address(field string, a *network.EndpointIPAMConfig) {
	if a == nil {
		return
	}
	for _, text := range []string{a.IPv4Address, a.IPv6Address} {
		if _, err := netip.ParseAddr(text); text != "" && err != nil {
			e.Refuse(field, text, "")
		}
	}
	if len(a.LinkLocalIPs) > 0 {
		e.Refuse(field+".LinkLocalIPs", a.LinkLocalIPs, "")
	}
}
