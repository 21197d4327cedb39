// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/config"
	"weir/internal/face/cli/frame"
	"weir/internal/host/daemon"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

func (a commands) cleanupCommand() *cobra.Command {
	var (
		links         []string
		file          string
		force, dryRun bool
		flags         daemon.Overrides
	)
	c := a.Printing(&cobra.Command{
		Use:   "cleanup",
		Short: "Leave the host as Weir found it",
		Long: `Remove Weir's qdiscs, marks and pins and put back the former qdisc.
Without --link, do so for every device that carries a qdisc of Weir's. Needs root, and
no agent: one that runs would set up again what this removes, so it is refused while
one does, unless --force is given. Fields set at run time are kept.`,
		Example: `  systemctl stop weir && weir cleanup
  weir cleanup --link eth0
  weir cleanup --dry-run`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if !force && !dryRun {
				claim, err := a.claimFromAgents(c.Context())
				if err != nil {
					return err
				}
				defer claim.Release()
			}
			steered, err := steeredDevices(links)
			if err != nil {
				return err
			}
			r := api.ChangeResult{DryRun: dryRun, Changes: []api.Edit{}}
			var devices []string
			for _, s := range steered {
				devices = append(devices, s.name)
				r.Changes = append(r.Changes, api.Edit{
					What: fmt.Sprintf("give back %s, which has qdisc %s", s.name, s.qdisc), Why: "asked by weir cleanup",
				})
			}
			if len(devices) > 0 && !dryRun {
				if err := daemon.Cleanup(c.Context(), file, devices, flags, rest.Self(), a.Log()); err != nil {
					return err
				}
			}
			return a.Print(r, func() string { return renderCleanup(r) })
		},
	})
	c.Flags().StringArrayVar(&links, "link", nil, "`DEV` to give back; may be given several times")
	c.Flags().StringVar(&file, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	c.Flags().StringVar(&flags.StateDir, "state-dir", "", "`FOLDER` where the former qdisc is remembered (default "+config.Default().StateDir+")")
	c.Flags().BoolVar(&force, "force", false, "even if an agent runs")
	frame.DryRunFlag(c, &dryRun)
	return c
}

func renderCleanup(r api.ChangeResult) string {
	if len(r.Changes) == 0 {
		return "nothing to clean up: no device has a qdisc of Weir's\n"
	}
	return frame.RenderChange(r)
}

// agentProbe bounds the time in which an agent has to answer.
const agentProbe = 2 * time.Second

// claimFromAgents keeps agents away while links are given back. It is refused while
// one runs, at this socket or, in this network namespace, at another.
func (a commands) claimFromAgents(ctx context.Context) (*device.Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, agentProbe)
	defer cancel()
	_, err := a.AgentClient().Status(ctx)
	if errors.Is(err, api.ErrNotPermitted) {
		return nil, err
	}
	if !errors.Is(err, api.ErrNoAgent) {
		// An agent that is slow or fails is an agent all the same.
		return nil, agentRuns("at " + a.Socket)
	}
	claim, err := device.TakeClaim(dataplane.Options{})
	var used *device.InUseError
	if errors.As(err, &used) {
		return nil, agentRuns(fmt.Sprintf("(process %d)", used.PID))
	}
	return claim, err
}

func agentRuns(where string) error {
	return fmt.Errorf("an agent runs %s and would set up again what is removed; "+
		"stop it first: systemctl stop weir (or add --force)", where)
}

// steered is a device that may carry something of Weir's.
type steered struct{ name, qdisc string }

// steeredDevices returns the named devices, or, without names, all devices whose root
// qdisc is Weir's.
func steeredDevices(named []string) ([]steered, error) {
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all := named
	if len(named) == 0 {
		interfaces, err := net.Interfaces()
		if err != nil {
			return nil, fmt.Errorf("list network devices: %w", err)
		}
		for _, i := range interfaces {
			all = append(all, i.Name)
		}
	}
	var found []steered
	for _, name := range all {
		dev, err := conn.Lookup(name)
		if errors.Is(err, dataplane.ErrNoDevice) && len(named) == 0 {
			continue // it went away meanwhile
		}
		if err != nil {
			return nil, err
		}
		root, err := conn.Root(dev)
		if err != nil {
			return nil, err
		}
		if len(named) > 0 || root.Ours() {
			found = append(found, steered{name, root.String()})
		}
	}
	return found, nil
}
