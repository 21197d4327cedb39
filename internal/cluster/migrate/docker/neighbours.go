// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"weir/internal/cluster/migrate"
)

// neighbours refuses names and addresses in a network that a container here has already,
// running or not: Docker's DNS would give the copy a part of its connections, or all of
// them while it is stopped.
func (e *Engine) neighbours(ctx context.Context, r container.InspectResponse, x *migrate.Examination) error {
	asked := claims(r)
	if len(asked) == 0 {
		return nil
	}
	list, err := e.client.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return err
	}
	for _, summary := range list {
		other, err := e.client.ContainerInspect(ctx, summary.ID)
		if errdefs.IsNotFound(err) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return err
		}
		taken(asked, other, x)
	}
	return nil
}

// taken notes which of the names and addresses that are asked for, perhaps thousands, another has.
func taken(asked map[string]map[string]bool, other container.InspectResponse, x *migrate.Examination) {
	for name, endpoint := range other.NetworkSettings.Networks {
		has := append(claimsOf(endpoint), strings.TrimPrefix(other.Name, "/"), other.Config.Hostname)
		for _, one := range slices.Compact(slices.Sorted(slices.Values(has))) {
			if asked[name][one] && !x.Full() {
				x.Note("not-accepted", "in network "+name+" another container has the name or address "+one+" already", "start it with another --network-alias or --ip")
			}
		}
	}
}

// claims returns the names and addresses that a container asks for, by network, but for
// its own name and the name made of its id.
func claims(r container.InspectResponse) map[string]map[string]bool {
	asked := map[string]map[string]bool{}
	for name, endpoint := range r.NetworkSettings.Networks {
		for _, one := range claimsOf(endpoint) {
			if one == strings.TrimPrefix(r.Name, "/") || one == r.ID[:min(12, len(r.ID))] {
				continue
			}
			if asked[name] == nil {
				asked[name] = map[string]bool{}
			}
			asked[name][one] = true
		}
	}
	return asked
}

func claimsOf(n *network.EndpointSettings) (list []string) {
	if n == nil {
		return nil
	}
	list = slices.Clone(n.Aliases)
	if a := n.IPAMConfig; a != nil {
		for _, address := range []string{a.IPv4Address, a.IPv6Address} {
			if address != "" {
				list = append(list, address)
			}
		}
	}
	return list
}
