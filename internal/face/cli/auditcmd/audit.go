// SPDX-License-Identifier: Apache-2.0

// Package auditcmd has weir audit and weir manager audit: who changed what, on a host and in a
// cluster. Both read the same entries (package audit) and print them alike.
package auditcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/base/audit"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
)

// Commands makes the commands of both logs.
type Commands struct{ *frame.App }

// auditFlags say which entries are wanted.
type auditFlags struct {
	since string
	limit int
}

func (f *auditFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "24h", "`TIME` of the first: so long ago (90m, 24h, 7d), a day (2026-11-22), or a moment (2026-11-22T20:00:00Z); all")
	c.Flags().IntVarP(&f.limit, "limit", "n", 200, "the newest `N`, at most 5000")
}

// query returns the query that the flags describe.
func (f auditFlags) query(object string, now time.Time) (audit.Query, error) {
	since, err := frame.Since(f.since, now)
	if err != nil {
		return audit.Query{}, err
	}
	if f.limit < 1 || f.limit > audit.MaxEntries {
		return audit.Query{}, frame.Usagef("--limit %d: not a number of entries; write 1 to %d", f.limit, audit.MaxEntries)
	}
	return audit.Query{Since: since, Object: object, Limit: f.limit}, nil
}

// Host makes weir audit.
func (a Commands) Host() *cobra.Command {
	return a.auditOf("audit [NAME]", "Show who changed what on this host",
		`Show who changed what: every change of a policy on this host, with its author and the
state before and after, and every refused attempt. NAME is a workload, group or
link; without it, all. The log is `+"/var/log/weir/audit.log"+`; docs/audit.md describes it.`,
		`  weir audit --since 1h
  weir audit web -o json
  weir audit --since 2026-11-22 --limit 1000`,
		func(ctx context.Context, q audit.Query) ([]audit.Entry, error) { return a.AgentClient().Audit(ctx, q) })
}

// Manager makes weir manager audit.
func (a Commands) Manager() *cobra.Command {
	c := a.auditOf("audit [NAME]", "Show who changed what in the cluster",
		`Show who changed what in the cluster: joins, tokens, moves, removals, with who asked for
them, and what was refused. NAME is a node, a container or a token; without it, all.`,
		`  weir manager audit --since 7d`,
		func(ctx context.Context, q audit.Query) ([]audit.Entry, error) {
			return a.ManagerClient().Audit(ctx, q)
		})
	a.ManagerSocketFlag(c)
	return c
}

func (a Commands) auditOf(use, short, long, example string, read func(context.Context, audit.Query) ([]audit.Entry, error)) *cobra.Command {
	var f auditFlags
	c := a.Printing(&cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: frame.Names("[NAME]"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			q, err := f.query(strings.Join(args, ""), time.Now())
			if err != nil {
				return err
			}
			list, err := read(c.Context(), q)
			if err != nil {
				return err
			}
			return a.Print(list, func() string { return renderAudit(list, time.Local) })
		},
	})
	f.register(c)
	return c
}

func renderAudit(list []audit.Entry, zone *time.Location) string {
	if len(list) == 0 {
		return "nothing was changed; --since all shows all there is\n"
	}
	t := table.New("TIME", "WHO", "ACTION", "OBJECT", "RESULT", "WHAT")
	for _, e := range list {
		result := e.Result
		if e.Omitted > 0 {
			result += fmt.Sprintf(" (and %d more)", e.Omitted)
		}
		t.Add(e.Time.In(zone).Format(time.DateTime), author(e.Who), e.Action, e.Object, result, whatChanged(e))
	}
	return t.String()
}

// author names the user, node or address that made a change, and by which way if that was
// not the socket, such as "alice as root" or "node a".
func author(w audit.Who) string {
	name := cmp.Or(w.User, w.Node, w.Address)
	if name == "" {
		return w.Via
	}
	if w.Login != "" {
		name = w.Login + " as " + name
	}
	if w.Via != audit.ViaSocket {
		return w.Via + " " + name
	}
	return name
}

// whatChanged lists the fields that an entry changed, or says why it changed nothing.
func whatChanged(e audit.Entry) string {
	var parts []string
	before, hadBefore := e.Before.(map[string]any)
	after, hasAfter := e.After.(map[string]any)
	switch {
	case e.Result != audit.Done:
		return strings.TrimSpace(compactJSON(e.Change) + " " + e.Reason)
	case hadBefore && hasAfter:
		for _, field := range slices.Sorted(maps.Keys(after)) {
			parts = append(parts, fmt.Sprintf("%s %s -> %s", field, compactJSON(before[field]), compactJSON(after[field])))
		}
	case hasAfter:
		for _, field := range slices.Sorted(maps.Keys(after)) {
			parts = append(parts, field+" "+compactJSON(after[field]))
		}
	case hadBefore:
		return "gone"
	default:
		if e.Before != nil || e.After != nil {
			return compactJSON(e.Before) + " -> " + compactJSON(e.After)
		}
		return cmp.Or(compactJSON(e.Change), e.Reason)
	}
	return strings.Join(parts, ", ")
}

// compactJSON returns a value as text; a text stays as it is.
func compactJSON(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
