// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/base/atomicfile"
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
