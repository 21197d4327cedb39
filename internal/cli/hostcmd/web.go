// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/cli/frame"
	"weir/internal/cli/human"
)

// Web makes weir web.
func (a Commands) Web() *cobra.Command {
	var end, dryRun bool
	c := a.Printing(&cobra.Command{
		Use:   "web",
		Short: "Print a link that opens the agent's page in a browser",
		Long: `Print a link that opens the agent's page in a browser: the link once, within two
minutes, and the page for 12 hours, with your rights on this host. A member of
group weir-view sees everything there and changes nothing. The page is off unless
weir.yaml has web: {listen: 127.0.0.1:7480}.

--end ends all sessions of the page on this host, of all users.`,
		Example: `  weir web
  weir web -o json | jq -r .url
  weir web --end`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if end {
				r, err := a.AgentClient().EndWeb(c.Context(), dryRun)
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
			link, err := a.AgentClient().Web(c.Context())
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
