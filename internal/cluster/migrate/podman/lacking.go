// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"fmt"
	"os"

	"weir/internal/cluster/migrate"
)

// Lacking says what this engine lacks as the target of an order.
func (e *Engine) Lacking(ctx context.Context, o migrate.MoveSpec) (list []migrate.PreflightFinding, err error) {
	_, err = e.inspect(ctx, o.Container.Name)
	switch {
	case err == nil:
		list = append(list, migrate.PreflightFinding{Code: "name-taken", Refuses: true, Msg: "a container " + o.Container.Name + " is there already", Remedy: "rename or remove it"})
	case !noContainer(err):
		return nil, err
	}
	if refused := e.unlisted(o); len(refused) > 0 {
		return append(list, refused...), nil
	}
	for _, b := range o.Container.Binds {
		if _, err := os.Stat(b.Source); err != nil {
			list = append(list, migrate.PreflightFinding{Code: "bind-missing", Refuses: true, Msg: fmt.Sprintf("the path %s, mounted at %s, is missing", b.Source, b.Destination), Remedy: "make it there, with the same files (a shared file system), or use a volume"})
		}
	}
	for _, v := range o.Container.Volumes {
		if _, err := e.run(ctx, "volume", "exists", "--", v.Name); err == nil {
			list = append(list, migrate.PreflightFinding{Code: "volume-taken", Refuses: true, Msg: fmt.Sprintf("a volume %s is there already and may hold data in use", v.Name), Remedy: "remove or rename it: podman volume rm " + v.Name})
		}
	}
	for _, n := range o.Container.Networks {
		if _, err := e.run(ctx, "network", "exists", "--", n.Name); err != nil {
			list = append(list, migrate.PreflightFinding{Code: "network-missing", Refuses: true, Msg: fmt.Sprintf("network %s is missing", n.Name), Remedy: fmt.Sprintf("podman network create -d %s %s", n.Driver, n.Name)})
		}
	}
	return list, nil
}

// unlisted returns the paths that no rule of this node names. Another node is not told
// whether they are here.
func (e *Engine) unlisted(o migrate.MoveSpec) []migrate.PreflightFinding {
	x := &migrate.Examination{}
	for _, b := range o.Container.Binds {
		if e.rules != nil && !e.rules.Bind(b.Source) {
			x.Refuse("bind", b.Source, "binds: ["+b.Source+"]")
		}
	}
	return x.Findings()
}
