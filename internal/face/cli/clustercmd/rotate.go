// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
)

func (a Commands) managerRotateCommand() *cobra.Command {
	c := a.Printing(&cobra.Command{
		Use:   "rotate-authority",
		Short: "Replace the authority that signs the cluster's certificates",
		Long: `Replace the authority of the cluster, and the manager's own key, while everything runs: as
a habit, or after its key (ca.key) may have been read by others. Nodes ask for certificates
of the new authority by themselves within a minute. The former one counts until all nodes
have, and 14 days at the most; weir manager status shows how far it is. A node that is off
all that time comes back by itself. Tokens that were made before still work.`,
		Example: `  weir manager rotate-authority
  weir manager status`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			authority, err := a.ManagerClient().RotateAuthority(c.Context())
			if err != nil {
				return err
			}
			return a.Print(authority, func() string {
				return authorityText(authority, time.Now()) + "keep a copy of the new ca.key elsewhere, and destroy copies of the former one\n"
			})
		},
	})
	a.ManagerSocketFlag(c)
	return c
}

// authorityText returns the authority in lines of weir manager status.
func authorityText(a api.Authority, now time.Time) string {
	if a.Hash == "" { // a manager of a former version
		return ""
	}
	text := fmt.Sprintf("authority  %s, ends in %s; the manager's certificate in %s\n", a.Hash, human.Age(a.Ends.Sub(now)), human.Age(a.CertificateEnds.Sub(now)))
	r := a.Rotation
	if r == nil {
		return text
	}
	text += fmt.Sprintf("           took the place of another %s ago; %d of %d nodes have a certificate of it", human.Age(now.Sub(r.Started)), r.Renewed, r.Nodes)
	if len(r.Behind) > 0 {
		text += ", not yet " + strings.Join(shorten(r.Behind, 5), ", ")
	}
	return text + fmt.Sprintf("\n           the former one counts until all have, %s at the most\n", human.Age(r.EndsBy.Sub(now)))
}

// shorten returns a list with the rest counted after the first so many.
func shorten(list []string, many int) []string {
	if len(list) <= many {
		return list
	}
	return append(append([]string{}, list[:many]...), fmt.Sprintf("%d others", len(list)-many))
}

// certificateText says when a certificate ends, "-" where that is not known.
func certificateText(ends, now time.Time) string {
	switch {
	case ends.IsZero():
		return "-"
	case !now.Before(ends):
		return "ended " + human.Age(now.Sub(ends)) + " ago"
	}
	return human.Age(ends.Sub(now))
}
