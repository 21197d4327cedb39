// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/registry/access"
	"weir/internal/core/wire"
)

// checkTimeout bounds how long the manager may take to say that its registry is there.
const checkTimeout = 3 * time.Second

// Address returns the registry of an order as this node's engine names it, "" if there is
// none.
func (r *Registry) Address(ordered string) string {
	switch {
	case ordered != wire.OwnRegistry:
		return ordered
	case r.listener == nil:
		return ""
	}
	return r.listener.Addr().String()
}

// PushLogin returns the login that this node's engine shows here for a move of which it
// is the source. Other registries get none.
func (r *Registry) PushLogin(order wire.Move) migrate.Login { return r.login(order, true) }

// PullLogin returns the login for a move of which this node is the target. What comes
// may unpack to what was announced.
func (r *Registry) PullLogin(order wire.Move, o migrate.MoveSpec) migrate.Login {
	login := r.login(order, false)
	r.passes.allow(login, o.Limit(migrate.Part{Kind: migrate.PartExport}))
	return login
}

// Revoke ends a login.
func (r *Registry) Revoke(l migrate.Login) { r.passes.revoke(l) }

func (r *Registry) login(order wire.Move, source bool) migrate.Login {
	if order.Registry != wire.OwnRegistry || r.listener == nil {
		return migrate.Login{}
	}
	return r.passes.issue(access.Right{Move: order.ID, Source: source}, time.Now())
}

// Usable returns the registry for an order, "" if it is out of reach and the move can do
// without.
func (r *Registry) Usable(ctx context.Context, order wire.Move) (string, error) {
	if order.Registry == "" {
		return "", nil
	}
	err := r.check(ctx, order.Registry)
	if err == nil {
		return r.Address(order.Registry), nil
	}
	if migrate.Approach(order.Approach) == migrate.ApproachCommit {
		return "", fmt.Errorf("approach commit needs the registry: %w", err)
	}
	r.log.Warn("move goes without the registry", "move", order.ID, "err", err)
	return "", nil
}

// check says why an order's registry cannot be used now.
func (r *Registry) check(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if address != wire.OwnRegistry {
		host, _, _ := strings.Cut(address, "/")
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
		if err != nil {
			return fmt.Errorf("registry %s cannot be reached: %w", address, err)
		}
		return conn.Close()
	}
	if r.listener == nil {
		return fmt.Errorf("the manager's registry is not offered on node %s: %s is taken; choose another cluster.registry_listen", r.opts.Credentials.Name(), r.opts.Listen)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.opts.Manager+rootPath, nil)
	if err != nil {
		return err
	}
	resp, err := r.opts.HTTP.Do(req)
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err
		}
		return fmt.Errorf("the manager's registry cannot be reached: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the manager's registry answers %s", resp.Status)
	}
	return nil
}
