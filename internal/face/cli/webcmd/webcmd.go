// SPDX-License-Identifier: Apache-2.0

// Package webcmd has weir web and weir manager web: links to the pages of the agent and of the
// manager.
package webcmd

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/web"
)

// Commands makes the commands of both pages.
type Commands struct{ *frame.App }

// client asks a program for links to its page; api.Client and api.ManagerClient are some.
type client interface {
	Web(ctx context.Context) (api.WebLink, error)
	EndWeb(ctx context.Context, dryRun bool) (api.ChangeResult, error)
}

// Host makes weir web.
func (a Commands) Host() *cobra.Command {
	return a.webOf(web.Agent, func() client { return a.AgentClient() })
}

// Manager makes weir manager web.
func (a Commands) Manager() *cobra.Command {
	c := a.webOf(web.Manager, func() client { return a.ManagerClient() })
	a.ManagerSocketFlag(c)
	return c
}

// webOf makes the command of a program's page.
func (a Commands) webOf(p web.Program, connect func() client) *cobra.Command {
	var end, dryRun bool
	c := a.Printing(&cobra.Command{
		Use:   "web",
		Short: "Print a link that opens the " + p.Name + "'s page in a browser",
		Long: `Print a link that opens the ` + p.Name + `'s page in a browser: the link once, within two
minutes, and the page for 12 hours, with your rights on this host. A member of
group weir-view sees everything there and changes nothing. The page is off unless
weir.yaml has ` + p.Example + `.

--end ends all sessions of the page on this host, of all users.`,
		Example: "  " + p.Command + "\n  " + p.Command + " -o json | jq -r .url\n  " + p.Command + " --end",
		Args:    frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if end {
				r, err := connect().EndWeb(c.Context(), dryRun)
				if err != nil {
					return err
				}
				return a.Print(r, func() string {
					if r.DryRun {
						return "would end all sessions of the page\n"
					}
					return "all sessions of the page have ended\n"
				})
			}
			if dryRun {
				return frame.Usagef("--dry-run: a link changes nothing; give it with --end")
			}
			link, err := connect().Web(c.Context())
			if err != nil {
				return err
			}
			return a.Print(link, func() string { return renderLink(link, time.Now(), os.Getenv("SSH_CONNECTION") != "") })
		},
	})
	c.Flags().BoolVar(&end, "end", false, "end all sessions of the page, and links that were not opened yet")
	frame.DryRunFlag(c, &dryRun)
	return c
}

// renderLink returns the link with what has to be known of it. remote says that the user is
// logged in over SSH, so that the browser is probably on another machine.
func renderLink(link api.WebLink, now time.Time, remote bool) string {
	text := link.URL + "\n"
	what := "may change everything"
	if link.Role == "view" {
		what = "may look and change nothing"
	}
	text += fmt.Sprintf("opens once, within %s; the session %s and lasts 12 h\n", human.Age(link.Ends.Sub(now).Round(time.Minute)), what)
	if at, err := url.Parse(link.URL); err == nil && remote {
		text += fmt.Sprintf("from another machine, first: ssh -L %s:%s HOST\n", cmp.Or(at.Port(), "7480"), at.Host)
	}
	return text
}
