// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/registry/access"
)

// untagTimeout bounds how long it may take to remove a name after the caller has
// given up.
const untagTimeout = 10 * time.Second

// committed returns the reference of what a migration commits or imports; "" if it
// does neither.
func committed(o migrate.MoveSpec) string {
	switch o.Approach {
	case migrate.ApproachCommit:
		return o.Registry + "/" + access.MoveRepository + ":" + o.Move
	case migrate.ApproachExport:
		return access.MoveRepository + ":" + o.Move
	}
	return ""
}

// digested returns the reference, by digest, of the image that a migration has
// committed, whatever the name means by now; "" if it has no digest.
func digested(o migrate.MoveSpec) string {
	named, err := reference.ParseNormalizedNamed(committed(o))
	if err != nil || o.Committed == nil || o.Committed.Digest == "" {
		return ""
	}
	return reference.FamiliarName(named) + "@" + o.Committed.Digest
}

// base returns the reference of a container's image in the registry. It has the
// move's own name: no other move can put another image there.
func base(o migrate.MoveSpec) string { return o.Registry + "/" + access.BaseRepository + ":" + o.Move }

// hint returns the reference by which a target tells its registry which layers it has.
func hint(o migrate.MoveSpec) string { return base(o) + access.HintSuffix }

// brought returns a name of an image that came here for a migration, until that is
// over: if it fails, the image goes.
func brought(o migrate.MoveSpec) string { return "weir-brought:" + o.Move }

// imageName returns the container's image by the name that it was asked for, if that
// still means the same.
func (e *Engine) imageName(ctx context.Context, c migrate.Container) string {
	if found, err := e.client.ImageInspect(ctx, c.Image); err == nil && found.ID == c.ImageID {
		return c.Image
	}
	return c.ImageID
}

// removeImage takes a name from an image, and removes the image if it has no other
// name and no container. It ignores a failure.
func (e *Engine) removeImage(ctx context.Context, ref string) {
	if ref != "" {
		_, _ = e.client.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
	}
}

// untag takes a name that an image has for a migration only, also after the caller has
// given up. An engine keeps the last name of an image that a container uses unless it is
// forced to; it is only where that container runs, since it would remove the image of
// one that does not.
func (e *Engine) untag(ctx context.Context, ref string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), untagTimeout)
	defer cancel()
	if _, err := e.client.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true}); !errdefs.IsConflict(err) {
		return
	}
	running, err := e.client.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(filters.Arg("ancestor", ref))})
	if err == nil && len(running) > 0 {
		_, _ = e.client.ImageRemove(ctx, ref, image.RemoveOptions{Force: true})
	}
}

// untagPassing takes the names by which a container's image went through the registry.
// The steps that give them take them back, unless the agent or the engine dies in
// between.
func (e *Engine) untagPassing(ctx context.Context, o migrate.MoveSpec) {
	if o.Registry != "" {
		e.untag(ctx, base(o))
		e.untag(ctx, hint(o))
	}
}

// dropBrought removes an image that came for a migration, unless it is used by now.
func (e *Engine) dropBrought(ctx context.Context, o migrate.MoveSpec) {
	if _, err := e.client.ImageInspect(ctx, brought(o)); err != nil {
		return
	}
	e.removeImage(ctx, brought(o))
}
