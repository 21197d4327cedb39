// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/refusal"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
)

func (a Commands) managerSnapshotCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Write the manager's state to a file",
		Long: `Write the state of the manager, which goes on meanwhile, to a file: the authority and
its key, the manager's certificate, nodes, tokens, moves. Images and messages on the bus
are not in it. A user who has the file can become any node: keep it as secret as ca.key.
FILE - is standard output, to be encrypted by another program.`,
		Example: `  weir manager snapshot /var/backups/weir-manager.snapshot
  weir manager snapshot - | gpg --encrypt --recipient ops > weir-manager.gpg`,
		Args: frame.Names("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			file := args[0]
			if _, err := os.Lstat(file); err == nil && file != "-" {
				return &refusal.Error{Kind: refusal.Conflict, Field: "FILE", Value: file, Msg: "exists", Remedy: "choose another name, or remove it"}
			}
			s, err := a.ManagerClient().Snapshot(c.Context())
			if err != nil {
				return err
			}
			if file == "-" {
				_, err := a.Stdout.Write(s.Data)
				return err
			}
			if err := atomicfile.Write(file, s.Data, 0o600); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "wrote %s: %s, nodes: %d, moves that have not ended: %d\nit holds the key of the authority; keep it as secret as ca.key\n",
				file, human.Size(uint64(len(s.Data))), s.Nodes, s.Moves)
			return nil
		},
	}
	a.ManagerSocketFlag(c)
	c.ValidArgsFunction = nil
	return c
}

func (a Commands) managerRestoreCommand() *cobra.Command {
	var o statedir.RestoreOptions
	c := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a manager's state out of a snapshot",
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
