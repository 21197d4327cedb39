// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/process"
)

// secondLook is the time after which a process of no container has to be in a container's
// namespace still.
const secondLook = 300 * time.Millisecond

// unmovable returns what stands against a dump of a container as its processes are now: what
// CRIU cannot dump, and containers and processes that share a namespace with it.
func unmovable(ctx context.Context, engine *client.Client, p place, r container.InspectResponse) ([]migrate.PreflightFinding, error) {
	list := append(process.Undumpable(r.State.Pid), process.HostConnections(r.State.Pid, p.pid)...)
	others, err := engine.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	nameOfGroup := func(groups string) string {
		for _, c := range others {
			if strings.Contains(groups, c.ID) {
				return nameOf(c)
			}
		}
		return ""
	}
	look := func() []process.Stranger { return process.Strangers(r.State.Pid, r.ID, p.pid) }
	list = append(list, process.Staying(look, nameOfGroup, func() { time.Sleep(secondLook) })...)
	for _, c := range others { // one that does not run could never be started again
		if c.State != container.StateRunning && c.HostConfig.NetworkMode == "container:"+r.ID {
			list = append(list, migrate.PreflightFinding{Code: "shared-namespace", Refuses: true, Msg: fmt.Sprintf("container %s, which does not run, is to share its network and would stay behind", nameOf(c)), Remedy: "docker rm " + nameOf(c)})
		}
	}
	return slices.Compact(list), nil
}
