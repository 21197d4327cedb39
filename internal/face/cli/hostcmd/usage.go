// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"encoding/csv"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// formatCSV is the format that only weir usage has: spreadsheets read it.
const formatCSV = "csv"

// Usage makes weir usage.
func (a Commands) Usage() *cobra.Command {
	var since, by string
	c := a.Printing(&cobra.Command{
		Use:   "usage [NAME]",
		Short: "Show how much workloads, groups and links have sent and received",
		Long: `Show how many bytes each link, group and workload has sent and received; with NAME, only
the one of that name. Bytes are those on the wire, counted by the kernel; received
counts where a link divides ingress. What a workload sends is in the row of its link,
and in the one of its group, too. The agent keeps each hour of 400 days, over restarts of
workloads, of itself and of the host.

--since is rounded down to the hour. --by day divides by days of the host's time zone.
-o csv has times in UTC and numbers in bytes.`,
		Example: `  weir usage
  weir usage --since 7d --by day
  weir usage web --since 2026-11-01
  weir usage --since all -o csv > usage.csv
  weir usage -o json | jq '.rows[] | select(.kind == "group") | [.name, .sent_bytes]'`,
		Args:              frame.Names("[NAME]"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			from, err := frame.Since(since, time.Now())
			if err != nil {
				return err
			}
			q := api.UsageQuery{Since: from, By: by}
			if len(args) > 0 {
				q.Object = args[0]
			}
			u, err := a.AgentClient().Usage(c.Context(), q)
			if err != nil {
				return err
			}
			if a.Format == formatCSV {
				return csv.NewWriter(a.Stdout).WriteAll(usageRecords(u))
			}
			unknown := ""
			if a.Format == frame.Table && len(args) > 0 && len(u.Rows) == 0 {
				if unknown, err = a.nobody(c.Context(), args[0], false); err != nil {
					return err
				}
			}
			return a.Print(u, func() string { return renderUsage(u, by) + unknown })
		},
	}, formatCSV)
	c.Flags().StringVar(&since, "since", "30d", "`TIME` of the first hour: so long ago (24h, 7d), a day (2026-11-22), or a moment (2026-11-22T20:00:00Z); all")
	c.Flags().StringVar(&by, "by", api.UsageByTotal, "`PART` for each of which there is a row: "+strings.Join(api.UsageBy, ", "))
	frame.CompleteFlags(c, map[string][]string{"by": api.UsageBy})
	return c
}

// usageRecords returns what -o csv writes.
func usageRecords(u api.Usage) [][]string {
	records := [][]string{{"at", "kind", "name", "device", "sent_bytes", "received_bytes"}}
	for _, r := range u.Rows {
		at := ""
		if r.At != nil {
			at = r.At.UTC().Format(time.RFC3339)
		}
		records = append(records, []string{at, r.Kind, r.Name, r.Device, strconv.FormatUint(r.SentBytes, 10), received(r, func(n uint64) string { return strconv.FormatUint(n, 10) }, "")})
	}
	return records
}

// received returns what a row has received as text, or what stands for not counted.
func received(r api.UsageRow, text func(uint64) string, uncounted string) string {
	if r.ReceivedUncounted {
		return uncounted
	}
	return text(r.ReceivedBytes)
}

// renderUsage returns the text of weir usage, with times of the host's zone.
func renderUsage(u api.Usage, by string) string {
	if len(u.Rows) == 0 {
		return "nothing was sent or received in that time\n"
	}
	titles := []string{"KIND", "NAME", "LINK", ">SENT", ">RECEIVED", ">TOTAL"}
	form := map[string]string{api.UsageByDay: time.DateOnly, api.UsageByHour: "2006-01-02 15:04"}[by]
	if form != "" {
		titles = append([]string{strings.ToUpper(by)}, titles...)
	}
	t := table.New(titles...)
	for _, r := range u.Rows {
		cells := []string{r.Kind, r.Name, r.Device, human.Size(r.SentBytes), received(r, human.Size, "-"), human.Size(r.SentBytes + r.ReceivedBytes)}
		if form != "" && r.At != nil {
			cells = append([]string{r.At.Local().Format(form)}, cells...)
		}
		t.Add(cells...)
	}
	return t.String()
}
