// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/api"
	"weir/internal/core/policy/classify"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
	"weir/internal/host/sdn"
)

// renderSDNChange returns a result in the words of all commands that change something.
func renderSDNChange(r sdn.Result) string {
	changes := api.ChangeResult{DryRun: r.DryRun}
	for _, text := range r.Changes {
		changes.Changes = append(changes.Changes, api.Edit{What: text})
	}
	return frame.RenderChange(changes)
}

func renderSDN(bridges []sdn.Bridge) string {
	if len(bridges) == 0 {
		return "no bridge has anything of Weir's; weir sdn apply FILE lays something down\n"
	}
	var parts []string
	for _, b := range bridges {
		parts = append(parts, renderBridge(b))
	}
	return strings.Join(parts, "\n")
}

func renderBridge(b sdn.Bridge) string {
	out := fmt.Sprintf("bridge %s; flows: %d of Weir's, %d of others\n", b.Name, len(b.Flows), b.ForeignFlows)
	t := table.New("PORT", ">BANDWIDTH", "DISCIPLINE", "QUEUE", ">NUMBER", ">RATE", ">MIN", ">MAX", "DSCP", ">FLOWS", ">PACKETS", ">BYTES")
	notes := ""
	for _, p := range b.Ports {
		switch {
		case p.Foreign != "":
			t.Add(p.Name, "-", "("+p.Foreign+")")
			continue
		case p.Note != "":
			t.Add(p.Name, "-", "-")
			notes += p.Note + "\n"
			continue
		}
		head := []string{p.Name, human.Limit(p.BandwidthBps), p.Discipline}
		if len(p.Queues) == 0 {
			t.Add(head...)
		}
		for _, q := range p.Queues {
			dscp := "-"
			if q.DSCP != nil {
				dscp = classify.DSCPName(*q.DSCP)
			}
			t.Add(append(head, q.Name, strconv.Itoa(int(q.Number)), human.Limit(q.RateBps), human.Limit(q.MinBps), human.Limit(q.MaxBps), dscp,
				strconv.Itoa(q.Flows), strconv.FormatUint(q.Packets, 10), strconv.FormatUint(q.Bytes, 10))...)
			head = []string{"", "", ""}
		}
	}
	if len(b.Ports) > 0 {
		out += t.String() + notes
	}
	if len(b.Flows) == 0 {
		return out
	}
	f := table.New(">PRIORITY", "MATCH", "ACTIONS", ">PACKETS", ">BYTES")
	for _, flow := range b.Flows {
		f.Add(strconv.Itoa(int(flow.Priority)), flow.Match, flow.Actions, strconv.FormatUint(flow.Packets, 10), strconv.FormatUint(flow.Bytes, 10))
	}
	return out + "\n" + f.String()
}
