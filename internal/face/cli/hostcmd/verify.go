// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
	"weir/internal/host/verify"
)

// Verify makes weir verify.
func (a Commands) Verify() *cobra.Command {
	var peer, answer string
	c := a.Printing(&cobra.Command{
		Use:   "verify [NAME]",
		Short: "Prove that traffic of workloads passes the links",
		Long: `Send a little traffic by every path out of a workload's network namespace (each
interface, IPv4 and IPv6, UDP and TCP), look for it at the workload's devices and at the
links, and read how much of it the workload's class counted. What comes in is proved by
the answers to it, which are injected at the link as if its wire had brought them. A
path is tried in about five seconds.

Packets go to 203.0.113.1 and 2001:db8:ffff::1, addresses for documentation, or to
--peer. A peer that answers (weir verify --answer :7007 there) proves that they arrive.

Each line has the number of packets sent, seen at the port, seen at the link (of
ingress: that the workload got) and counted. The exit code is 1 if a path is not
steered, and 0 if none is: a path that is not proved says what would prove it.`,
		Example: `  weir verify
  weir verify web -o json | jq -r '.[] | select(.result != "ok") | .why'
  weir verify web --peer 198.51.100.7:7007`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			if answer != "" {
				ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, unix.SIGTERM)
				defer stop()
				return verify.Answer(ctx, answer)
			}
			o := verify.Options{Name: strings.Join(args, "")}
			if peer != "" {
				at, err := netip.ParseAddrPort(peer)
				if err != nil {
					return frame.Usagef("--peer %q: give an address and a port, e.g. 198.51.100.7:7007", peer)
				}
				o.Peer = at
			}
			return a.verify(c.Context(), o)
		},
	})
	c.Flags().StringVar(&peer, "peer", "", "`ADDRESS:PORT` to send to, where weir verify --answer runs")
	c.Flags().StringVar(&answer, "answer", "", "be the peer of others at `ADDRESS:PORT`, e.g. :7007, until it is stopped")
	return c
}

func (a Commands) verify(ctx context.Context, o verify.Options) error {
	lines, err := verify.Run(ctx, a.AgentClient(), o)
	if err != nil {
		return err
	}
	if err := a.Print(lines, func() string { return renderVerify(lines) }); err != nil {
		return err
	}
	for _, l := range lines {
		if l.Result == verify.NotSteered {
			return frame.Exit(frame.ExitFailed, nil)
		}
	}
	return nil
}

// renderVerify returns a line for each path, with what is wrong below it.
func renderVerify(lines []verify.Line) string {
	t := table.New("WORKLOAD", "INTERFACE", "PATH", "DIRECTION", "SENT", "PORT", "LINK", "COUNTED", "PEER", "RESULT")
	for _, l := range lines {
		peer := ""
		if l.Answered > 0 {
			peer = fmt.Sprint(l.Answered)
		}
		t.Add(l.Workload, l.Interface, l.Path, l.Direction, fmt.Sprint(l.Sent), fmt.Sprint(l.Port), fmt.Sprint(l.Link), fmt.Sprint(l.Counted), peer, l.Result)
		if l.Why != "" {
			t.Add("", "", "", "", "", "", "", "", "", "> "+l.Why)
		}
	}
	if len(lines) == 0 {
		return "no workload has devices\n"
	}
	return t.String()
}
