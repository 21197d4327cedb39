// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/face/cli/frame"
	"weir/internal/host/sdn"
)

func (a commands) sdnCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sdn",
		Short: "Lay down disciplines, queues and flow rules on an Open vSwitch bridge",
		Long: `Configure the ports of an Open vSwitch bridge from one file: discipline and queues
through the switch's database, and OpenFlow rules that put traffic into the queues.
The packets are scheduled by the agent on the switch. No agent is needed here.`,
		Example: `  weir sdn apply s1.yaml
  weir sdn show s1
  weir sdn delete s1`,
	}
	frame.AsGroup(c)
	c.AddCommand(a.sdnApplyCommand(), a.sdnShowCommand(), a.sdnDeleteCommand())
	return c
}

func (a commands) sdnApplyCommand() *cobra.Command {
	var force, dryRun bool
	c := a.Printing(&cobra.Command{
		Use:   "apply FILE",
		Short: "Configure a bridge as a file says",
		Long: `Give a bridge the queues and flow rules of a file: missing ones are added, those of
Weir's that are not in the file are removed, and a second time nothing is changed. Other
flows and other QoS rows stay; a port that has such a row is refused without --force.
If the switch refuses the flows, the queues are put back as they were.`,
		Example: `  weir sdn apply s1.yaml
  weir sdn apply s1.yaml --dry-run`,
		Args:              frame.Names("FILE"),
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{"yaml"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := config.LoadSwitch(args[0])
			if err != nil {
				return err
			}
			r, err := sdn.Apply(c.Context(), s, force, dryRun)
			if err != nil {
				return err
			}
			return a.Print(r, func() string { return renderSDNChange(r) })
		},
	})
	c.Flags().BoolVar(&force, "force", false, "take over ports that have a QoS row that Weir did not set; weir sdn delete puts it back")
	frame.DryRunFlag(c, &dryRun)
	return c
}

func (a commands) sdnShowCommand() *cobra.Command {
	var place sdn.Addresses
	c := a.Printing(&cobra.Command{
		Use:   "show [BRIDGE]",
		Short: "Show queues and flow rules of a bridge, with the rules' counters",
		Long: `Show the ports of a bridge that have queues, and Weir's flow rules with their
counters; without BRIDGE, all bridges that have queues or flows of Weir's. weir get and
weir top show the packets sent and dropped.`,
		Example: `  weir sdn show
  weir sdn show s1 -o json`,
		Args:              frame.Names("[BRIDGE]"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			bridges, err := sdn.Show(c.Context(), strings.Join(args, ""), place)
			if err != nil {
				return err
			}
			return a.Print(bridges, func() string { return renderSDN(bridges) })
		},
	})
	placeFlags(c, &place)
	return c
}

func (a commands) sdnDeleteCommand() *cobra.Command {
	var (
		place  sdn.Addresses
		dryRun bool
	)
	c := a.Printing(&cobra.Command{
		Use:   "delete FILE|BRIDGE",
		Short: "Remove everything of Weir's from a bridge",
		Long: `Remove Weir's queues and flow rules from a bridge and put back the QoS rows that
weir sdn apply --force took the place of. Everything else stays. A name that contains a
dot or a slash is a file's, whose bridge and addresses are taken.`,
		Example: `  weir sdn delete s1.yaml
  weir sdn delete s1 --dry-run`,
		Args: frame.Names("FILE|BRIDGE"),
		RunE: func(c *cobra.Command, args []string) error {
			bridge := args[0]
			if strings.ContainsAny(bridge, "./") {
				s, err := config.LoadSwitch(bridge)
				if err != nil {
					return err
				}
				bridge, place = s.Bridge, sdn.Addresses{OVSDB: s.OVSDB, OpenFlow: s.OpenFlow, TLS: s.TLS}
			}
			r, err := sdn.Delete(c.Context(), bridge, place, dryRun)
			if err != nil {
				return err
			}
			return a.Print(r, func() string { return renderSDNChange(r) })
		},
	})
	placeFlags(c, &place)
	frame.DryRunFlag(c, &dryRun)
	return c
}

// placeFlags say where a switch is, where no file does.
func placeFlags(c *cobra.Command, place *sdn.Addresses) {
	c.Flags().StringVar(&place.OVSDB, "ovsdb", "", "`ADDRESS` of the switch's database, unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT (default "+config.DefaultOVSDB+")")
	c.Flags().StringVar(&place.OpenFlow, "openflow", "", "`ADDRESS` of the bridge (default BRIDGE.mgmt beside the database)")
	fs := c.Flags()
	fs.StringVarP(&place.TLS.Key, "private-key", "p", "", "`FILE` with the key for addresses ssl:HOST:PORT, closed to other users")
	fs.StringVarP(&place.TLS.Cert, "certificate", "c", "", "`FILE` with its certificate")
	fs.StringVarP(&place.TLS.CA, "ca-cert", "C", "", "`FILE` with the authority of the switch's certificate")
	fs.StringVar(&place.TLS.ServerName, "server-name", "", "`NAME` in the switch's certificate (default the host in the address)")
	check := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		for _, flag := range []struct{ name, address string }{{"ovsdb", place.OVSDB}, {"openflow", place.OpenFlow}} {
			if flag.address == "" {
				continue
			}
			if err := config.CheckSwitchAddress(flag.address); err != nil {
				return frame.Usagef("--%s: %v", flag.name, err)
			}
		}
		if err := config.CheckSwitchTLS(place.TLS, place.OVSDB, place.OpenFlow); err != nil {
			return frame.Usagef("%v", err)
		}
		return check(c, args)
	}
}
