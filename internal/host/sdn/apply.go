// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/config"
	"weir/internal/host/sdn/openflow"
	"weir/internal/host/sdn/ovsdb"
)

// Result holds the changes that were made, or with DryRun would be: one line each.
type Result struct {
	DryRun  bool     `json:"dry_run"`
	Changes []string `json:"changes"`
}

// answer bounds the time of a switch for one step.
const answer = 10 * time.Second

// Apply makes a bridge as the file describes it. force takes over ports that have another
// program's QoS row.
func Apply(ctx context.Context, s config.Switch, force, dryRun bool) (Result, error) {
	db, err := dial(ctx, s.OVSDB, s.TLS)
	if err != nil {
		return Result{}, err
	}
	defer db.Close()
	have := state{}
	if have.snapshot, err = db.Snapshot(); err != nil {
		return Result{}, err
	}
	if _, err := have.snapshot.Bridge(s.Bridge); err != nil { // before its socket is looked for
		return Result{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	of, err := have.connect(ctx, s.OpenFlow, s.TLS)
	if err != nil {
		return Result{}, err
	}
	defer of.Close()
	p, err := planApply(s, have, force)
	if err != nil {
		return Result{}, err
	}
	return p.carryOut(ctx, db, of, dryRun)
}

// Addresses holds the addresses of a switch.
type Addresses struct {
	OVSDB    string        // "" = config.DefaultOVSDB
	OpenFlow string        // "" = beside OVSDB
	TLS      tlsfile.Files // for addresses ssl:HOST:PORT
}

func (p Addresses) database() string { return cmp.Or(p.OVSDB, config.DefaultOVSDB) }

// bridge returns the address where a bridge listens. Its error says that the address has
// to be given.
func (p Addresses) bridge(name string) (string, error) {
	address := cmp.Or(p.OpenFlow, config.BridgeAddress(p.database(), name))
	if address == "" {
		return "", fmt.Errorf("bridge %s is on another machine; say where it listens, by --openflow ssl:HOST:PORT", name)
	}
	return address, nil
}

// Delete removes all rows and flows of Weir's on a bridge.
func Delete(ctx context.Context, bridge string, place Addresses, dryRun bool) (Result, error) {
	db, err := dial(ctx, place.database(), place.TLS)
	if err != nil {
		return Result{}, err
	}
	defer db.Close()
	have := state{}
	if have.snapshot, err = db.Snapshot(); err != nil {
		return Result{}, err
	}
	if _, err := have.snapshot.Bridge(bridge); err != nil {
		p := planDelete(bridge, have)
		if len(p.changes) == 0 {
			return Result{}, err
		}
		return p.carryOut(ctx, db, nil, dryRun)
	}
	address, err := place.bridge(bridge)
	if err != nil {
		return Result{}, err
	}
	of, err := have.connect(ctx, address, place.TLS)
	if err != nil {
		return Result{}, err
	}
	defer of.Close()
	return planDelete(bridge, have).carryOut(ctx, db, of, dryRun)
}

func dial(ctx context.Context, address string, files tlsfile.Files) (*ovsdb.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	return ovsdb.Dial(ctx, address, files)
}

// connect dials a bridge and reads its flows and ports.
func (s *state) connect(ctx context.Context, address string, files tlsfile.Files) (*openflow.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	c, err := openflow.Dial(ctx, address, files)
	if err != nil {
		return nil, err
	}
	if s.ports, err = c.Ports(ctx); err == nil {
		s.flows, err = c.Flows(ctx, Own)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// carryOut changes the rows, then the flows. If the switch refuses the flows, carryOut
// restores the rows.
func (p plan) carryOut(ctx context.Context, db *ovsdb.Conn, of *openflow.Conn, dryRun bool) (Result, error) {
	r := Result{DryRun: dryRun, Changes: append([]string{}, p.changes...)}
	if dryRun {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	if err := db.Replace(ctx, p.rows, p.orphans); err != nil {
		return Result{}, err
	}
	if of == nil {
		return r, nil
	}
	err := of.Commit(ctx, p.flows)
	if err == nil {
		return r, nil
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	if undo := p.undo(ctx, db); undo != nil {
		return Result{}, fmt.Errorf("%w; and the queues could not be put back: %w", err, undo)
	}
	return Result{}, fmt.Errorf("%w; no change was made", err)
}

// undo gives the ports the rows that they had before.
func (p plan) undo(ctx context.Context, db *ovsdb.Conn) error {
	if len(p.rows) == 0 {
		return nil
	}
	now, err := db.Snapshot()
	if err != nil {
		return err
	}
	var back []ovsdb.PortQoS
	for _, change := range p.rows {
		bridge, err := now.Bridge(change.Port.Bridge)
		if err != nil {
			return err
		}
		port, err := bridge.Port(change.Port.Name)
		if err != nil {
			return err
		}
		former := ovsdb.PortQoS{Port: port}
		switch was := change.Port.QoS; {
		case was.Own():
			former.Want = was
		case was != nil:
			former.Back = was.UUID
		}
		back = append(back, former)
	}
	return db.Replace(ctx, back, nil)
}
