// SPDX-License-Identifier: Apache-2.0

package managercli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/base/safepath"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/refusal"
	"weir/internal/face/cli/clustercmd"
	"weir/internal/face/cli/frame"
)

func (a commands) initCommand() *cobra.Command {
	var dir string
	first := clustercmd.TokenUses(1)
	c := &cobra.Command{
		Use:   "init",
		Short: frame.Manager.Commands["init"],
		Long: `Make a new cluster: an authority that signs the certificates of all nodes, and a first
token by which a node joins within a day. Nothing is started.`,
		Example: `  weir manager init
  weir manager init --uses 5
  weir manager serve`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			give, err := statedir.Take(dir)
			if err != nil {
				return err
			}
			token, err := manager.InitFor(dir, int(first), time.Now())
			if err := errors.Join(err, give()); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, `made a cluster in %s; keep ca.key there secret, and a copy of it elsewhere

start its manager:           weir manager serve     (or: systemctl start weir-manager)
join, on each node, with:    weir agent ... --manager HOST:%d --token-file FILE
where FILE holds this token, for %s within 24 hours
(more: weir manager token create):

%s
`, dir, manager.DefaultPort, first.Nodes(), token)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "state-dir", statedir.Default, "`FOLDER` for keys and database")
	c.Flags().Var(&first, "uses", "`NUMBER` of nodes that may join by the first token, or unlimited")
	return c
}

func (a commands) restoreCommand() *cobra.Command {
	var o statedir.RestoreOptions
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: frame.Manager.Commands["restore"],
		Long: `Make the state of a manager out of what weir manager snapshot wrote, where its disk was
lost or on another host with the same address. All of it is checked before anything is
put in place. Nodes go on without joining again, and say what became of the moves.

Nodes that were removed after the snapshot are members again: remove them again. Nodes
that joined after it join anew. All tokens are revoked. FILE - is standard input.`,
		Example: `  weir manager restore /var/backups/weir-manager.snapshot
  weir manager restore weir-manager.snapshot --dry-run`,
		Args: frame.Names("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			var in io.Reader = os.Stdin
			if args[0] != "-" {
				f, err := safepath.Open(args[0]) // it has the keys of the cluster
				if errors.Is(err, fs.ErrNotExist) {
					return &refusal.Error{Kind: refusal.Unknown, Field: "FILE", Value: args[0], Msg: "there is no such file", Remedy: "weir manager snapshot FILE writes one"}
				}
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			o.Name = args[0]
			r, err := manager.Restore(in, o)
			if err != nil {
				return err
			}
			fmt.Fprint(a.Stdout, renderRestored(r, o))
			return nil
		},
	}
	c.Flags().StringVar(&o.Dir, "state-dir", statedir.Default, "`FOLDER` for keys and database")
	c.Flags().BoolVar(&o.Force, "force", false, "put a state that is in the folder aside")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "only check the snapshot")
	return c
}

func renderRestored(r statedir.Restored, o statedir.RestoreOptions) string {
	text := fmt.Sprintf("the state of %s: nodes: %d, moves that had not ended: %d\n", r.Created.Format(time.RFC3339), len(r.Nodes), r.Moves)
	if o.DryRun {
		text = "dry run, nothing was done; the snapshot is whole\n" + text
		if r.Aside != "" {
			text += "what is in " + o.Dir + " would be put aside as " + r.Aside + "\n"
		}
		return text
	}
	text = "restored " + o.Dir + "\n" + text
	if r.Aside != "" {
		text += "what was there is in " + r.Aside + "\n"
	}
	return text + "remove nodes again that were removed since, and make tokens for nodes that joined since; all tokens are revoked\n" +
		"start the manager: systemctl start weir-manager\n"
}
