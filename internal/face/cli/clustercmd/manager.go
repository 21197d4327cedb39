// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
)

// Group makes weir manager without a command below it.
func Group() *cobra.Command {
	c := &cobra.Command{
		Use:   "manager",
		Short: "Manage a cluster of nodes",
		Long: `Manage a cluster: its nodes join by a token, say what their containers use, and move
containers from one to another when the manager says so. docs/cluster.md shows how.`,
	}
	frame.AsGroup(c)
	return c
}

// Manager makes weir manager with the commands below it that ask a manager.
func (a Commands) Manager() *cobra.Command {
	c := Group()
	c.AddCommand(a.managerStatusCommand(), a.managerTokenCommand(), a.managerRemoveCommand(), a.managerRotateCommand(), a.managerSnapshotCommand())
	return c
}

func (a Commands) managerStatusCommand() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:     "status",
		Short:   "Show the manager and its automatic mode",
		Example: `  weir manager status`,
		Args:    frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			st, err := a.ManagerClient().Cluster(c.Context())
			if err != nil {
				return err
			}
			return a.Print(st, func() string { return renderCluster(st, time.Now()) })
		},
	})
	a.ManagerSocketFlag(c)
	return c
}

func renderCluster(st api.Cluster, now time.Time) string {
	var b strings.Builder
	up := "connected"
	if !st.BusUp {
		up = "out of reach"
	}
	fmt.Fprintf(&b, "manager    %s, up %s, nodes join at %s\n", st.Version, human.Age(now.Sub(st.Started)), st.Address)
	fmt.Fprintf(&b, "bus        %s, %s\n", st.Bus, up)
	fmt.Fprintf(&b, "registry   %s\n", registryText(st.Registry))
	if st.Images != nil {
		b.WriteString(imagesText(*st.Images))
	}
	b.WriteString(authorityText(st.Authority, now))
	fmt.Fprintf(&b, "nodes      %d of %d heard of lately\n", st.NodesUp, st.Nodes)
	fmt.Fprintf(&b, "moves      %d under way, %d waiting\n", st.Running, st.Waiting)
	fmt.Fprintf(&b, "refused    %d messages and requests that were forged or of no member\n", st.Refused)
	auto := st.Automatic
	if !auto.Enabled {
		b.WriteString("automatic  off\n")
		return b.String()
	}
	fmt.Fprintf(&b, "automatic  every %s, from nodes that use more than %s of a resource\n           S has to fall by %s; a container that moved stays for %s; %d moves at once, %d in an hour\n",
		human.Age(duration(auto.IntervalSeconds)), human.Percent(auto.Above), human.Percent(auto.Hysteresis), human.Age(duration(auto.CooldownSeconds)), auto.MovesAtOnce, auto.MovesPerHour)
	if len(auto.QuietHours) > 0 {
		fmt.Fprintf(&b, "           not from %s\n", strings.Join(auto.QuietHours, ", "))
	}
	if auto.LastResult != "" {
		fmt.Fprintf(&b, "           %s ago: %s\n", human.Age(now.Sub(auto.Last)), auto.LastResult)
	}
	return b.String()
}

func registryText(registry string) string {
	switch registry {
	case "":
		return "none: images go from node to node, and approach commit is not possible"
	case wire.OwnRegistry:
		return "the manager's own, for members"
	}
	return registry
}

// imagesText returns the fill level of the manager's registry, and each node's part of
// it.
func imagesText(i api.Images) string {
	var b strings.Builder
	fmt.Fprintf(&b, "images     %s of %s", human.Size(i.Bytes), human.Size(i.LimitBytes))
	for _, node := range slices.Sorted(maps.Keys(i.Nodes)) {
		fmt.Fprintf(&b, ", %s %s", cmp.Or(node, "others"), human.Size(i.Nodes[node]))
	}
	fmt.Fprintf(&b, " (of %s each); %d uploads under way, %d requests refused\n", human.Size(i.NodeLimitBytes), i.Uploads, i.Refused)
	return b.String()
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (a Commands) managerRemoveCommand() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:   "remove NODE",
		Short: "Throw a node out of the cluster",
		Long: `Throw a node out of the cluster: its certificate counts no more, and it can join again
only by a new token, after its folder of the cluster was removed there. What runs on it
goes on.`,
		Example: `  weir manager remove gateway-7`,
		Args:    frame.Names("NODE"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := a.ManagerClient().RemoveNode(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.Print(n, func() string { return "removed node " + n.Name + "\n" })
		},
	})
	a.ManagerSocketFlag(c)
	return c
}
