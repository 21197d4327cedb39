// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/base/tlsfile"
	"weir/internal/host/sdn/openflow"
	"weir/internal/host/sdn/ovsdb"
	"weir/internal/host/sdn/switchport"
)

// Bridge is the present state of a bridge.
type Bridge struct {
	Name  string `json:"bridge"`
	Ports []Port `json:"ports"` // those that have a QoS row
	Flows []Flow `json:"flows"` // Weir's
	// ForeignFlows counts the bridge's other flows.
	ForeignFlows int `json:"foreign_flows"`
}

// Port is a port with queues.
type Port struct {
	Name         string  `json:"port"`
	Device       string  `json:"device,omitempty"`
	BandwidthBps uint64  `json:"bandwidth_bps,omitempty"`
	Discipline   string  `json:"discipline,omitempty"`
	AQM          string  `json:"aqm,omitempty"` // "" = the discipline's default
	Queues       []Queue `json:"queues,omitempty"`
	// Foreign is the type of a QoS row that is not meant for Weir.
	Foreign string `json:"foreign,omitempty"`
	Note    string `json:"note,omitempty"` // why rows that are for Weir cannot be used
}

// Queue is a queue of a port.
type Queue struct {
	Name    string `json:"queue"`
	Number  uint16 `json:"number"` // of set_queue
	RateBps uint64 `json:"rate_bps,omitempty"`
	MinBps  uint64 `json:"min_bps,omitempty"`
	MaxBps  uint64 `json:"max_bps,omitempty"`
	DSCP    *uint8 `json:"dscp,omitempty"`
	// Weir's flows into queues of this number, and the packets that they put there,
	// whichever port these left by.
	Flows   int    `json:"flows"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Flow is a flow of Weir's.
type Flow struct {
	Priority uint16 `json:"priority"`
	Match    string `json:"match"`
	Actions  string `json:"actions"`
	Queue    uint32 `json:"queue"` // number
	Packets  uint64 `json:"packets"`
	Bytes    uint64 `json:"bytes"`
}

// Show reads the state of a bridge, or, without a name, of all bridges with rows or flows
// of Weir's.
func Show(ctx context.Context, name string, place Addresses) ([]Bridge, error) {
	db, err := dial(ctx, place.database(), place.TLS)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	snapshot, err := db.Snapshot()
	if err != nil {
		return nil, err
	}
	list := snapshot.Bridges
	if name != "" {
		bridge, err := snapshot.Bridge(name)
		if err != nil {
			return nil, err
		}
		list = []ovsdb.Bridge{bridge}
	}
	shown := []Bridge{}
	for _, bridge := range list {
		address, err := place.bridge(bridge.Name)
		if err != nil {
			return nil, err
		}
		b, err := look(ctx, bridge, address, place.TLS)
		if err != nil {
			return nil, err
		}
		if name != "" || len(b.Flows) > 0 || slices.ContainsFunc(b.Ports, func(p Port) bool { return p.Foreign == "" }) {
			shown = append(shown, b)
		}
	}
	return shown, nil
}

func look(ctx context.Context, bridge ovsdb.Bridge, address string, files tlsfile.Files) (Bridge, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	c, err := openflow.Dial(ctx, address, files)
	if err != nil {
		return Bridge{}, fmt.Errorf("bridge %s: %w", bridge.Name, err)
	}
	defer c.Close()
	all, err := c.Count(ctx, openflow.All)
	if err != nil {
		return Bridge{}, fmt.Errorf("bridge %s: %w", bridge.Name, err)
	}
	flows, err := c.Flows(ctx, Own)
	if err != nil {
		return Bridge{}, fmt.Errorf("bridge %s: %w", bridge.Name, err)
	}
	ports, err := c.Ports(ctx)
	if err != nil {
		return Bridge{}, fmt.Errorf("bridge %s: %w", bridge.Name, err)
	}
	v := view(bridge, flows, ports)
	v.ForeignFlows = max(0, all-len(v.Flows))
	return v, nil
}

// named puts the names of ports in the place of their numbers.
func named(text, before string, ports map[string]uint32) string {
	words := strings.Split(text, ",")
	for i, word := range words {
		for name, number := range ports {
			if word == before+strconv.FormatUint(uint64(number), 10) {
				words[i] = before + name
			}
		}
	}
	return strings.Join(words, ",")
}

// view puts rows and Weir's flows together.
func view(bridge ovsdb.Bridge, flows []openflow.Flow, ports map[string]uint32) Bridge {
	b := Bridge{Name: bridge.Name, Ports: []Port{}, Flows: []Flow{}}
	counts := map[uint32]Queue{}
	for _, f := range flows {
		n, _ := queueOf(f)
		b.Flows = append(b.Flows, Flow{Priority: f.Priority, Queue: n,
			Match: named(matchText(f), "in_port=", ports), Actions: named(f.ActionText(), "output:", ports),
			Packets: f.Packets, Bytes: f.Bytes})
		c := counts[n]
		c.Flows, c.Packets, c.Bytes = c.Flows+1, c.Packets+f.Packets, c.Bytes+f.Bytes
		counts[n] = c
	}
	slices.SortStableFunc(b.Flows, func(x, y Flow) int { return int(y.Priority) - int(x.Priority) })
	for _, p := range bridge.Ports {
		if p.QoS != nil {
			b.Ports = append(b.Ports, viewPort(p, counts))
		}
	}
	return b
}

func viewPort(p ovsdb.Port, counts map[uint32]Queue) Port {
	v := Port{Name: p.Name}
	if !switchport.IsPort(p) {
		v.Foreign = p.QoS.Type
		return v
	}
	port, err := switchport.Decode(p)
	if err != nil {
		v.Note = err.Error()
		return v
	}
	v.Device, v.BandwidthBps = port.Device, uint64(port.Bandwidth)
	v.Discipline, v.AQM = string(port.Policy.Discipline), port.Policy.AQM.Compact()
	for _, q := range port.Policy.Queues {
		n := switchport.Number(q)
		c := counts[uint32(n)]
		c.Name, c.Number, c.DSCP = q.Name, n, q.DSCP
		c.RateBps, c.MinBps, c.MaxBps = uint64(q.Rate.Of(port.Bandwidth)), uint64(q.Min.Of(port.Bandwidth)), uint64(q.Max.Of(port.Bandwidth))
		v.Queues = append(v.Queues, c)
	}
	return v
}
