// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// idleUpload is how long an upload may stand still before its parts are removed.
const idleUpload = time.Hour

// tags returns the tags of a repository, none if nothing was pushed to it.
func (r *Registry) tags(ctx context.Context, repository string) ([]string, error) {
	name, err := reference.WithName(repository)
	if err != nil {
		return nil, err
	}
	repo, err := r.images.Repository(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := repo.Tags(ctx).All(ctx)
	if errors.As(err, new(distribution.ErrRepositoryUnknown)) {
		return nil, nil
	}
	return list, err
}

// Expire takes the tags from images of a repository that were pushed longer ago than
// age; Collect removes what that leaves. It waits for no upload, and none for it.
func (r *Registry) Expire(ctx context.Context, repository string, age time.Duration) error {
	list, err := r.tags(ctx, repository)
	if err != nil {
		return fmt.Errorf("images of %s: %w", repository, err)
	}
	name, err := reference.WithName(repository)
	if err != nil {
		return err
	}
	repo, err := r.images.Repository(ctx, name)
	if err != nil {
		return err
	}
	for _, tag := range list {
		if err := r.expire(ctx, repo, tag, age); err != nil {
			return fmt.Errorf("image %s:%s: %w", repository, tag, err)
		}
	}
	return nil
}

func (r *Registry) expire(ctx context.Context, repo distribution.Repository, tag string, age time.Duration) error {
	r.tagging.Lock() // it may be pushed again just now
	defer r.tagging.Unlock()
	link, err := r.driver.Stat(ctx, "/docker/registry/v2/repositories/"+repo.Named().Name()+"/_manifests/tags/"+tag+"/current/link")
	if errors.As(err, new(driver.PathNotFoundError)) {
		return nil
	}
	if err != nil || time.Since(link.ModTime()) <= age {
		return err
	}
	return repo.Tags(ctx).Untag(ctx, tag)
}

// Collect removes the data that no tag leads to and no pushing client has asked for
// within the last `age`, since layers come before the manifest that names them. It
// returns how many bytes that freed. Pushes and pulls go on meanwhile.
func (r *Registry) Collect(ctx context.Context, age time.Duration) (freed int64, err error) {
	r.dropIdle(ctx, idleUpload)
	if time.Since(r.opened) < age {
		return 0, nil // what was asked for before is not known
	}
	c := collection{Registry: r, age: age, marked: map[digest.Digest]bool{}}
	names, ok := r.images.(distribution.RepositoryEnumerator)
	if !ok {
		return 0, errors.New("the registry cannot list its repositories")
	}
	err = names.Enumerate(ctx, func(name string) error { c.names = append(c.names, name); return nil })
	if err == nil || errors.As(err, new(driver.PathNotFoundError)) {
		err = c.mark(ctx)
	}
	if err == nil {
		err = c.sweep(ctx)
	}
	if err != nil {
		return c.freed, fmt.Errorf("collect what is not needed in %s: %w", r.dir, err)
	}
	return c.freed, r.usage.save()
}

// dropIdle removes uploads that stand still.
func (r *Registry) dropIdle(ctx context.Context, age time.Duration) {
	idle := map[string]string{} // repositories, by upload
	r.usage.mu.Lock()
	for id, up := range r.usage.uploads {
		if up.busy == 0 && time.Since(up.last) > age {
			idle[id] = up.repository
			delete(r.usage.uploads, id)
		}
	}
	r.usage.mu.Unlock()
	for id, repository := range idle {
		r.dropUpload(ctx, repository, id)
	}
}

// collection is the state of one pass of Collect.
type collection struct {
	*Registry
	age    time.Duration
	names  []string // of the repositories
	marked map[digest.Digest]bool
	freed  int64
}

// mark finds what tags lead to.
func (c *collection) mark(ctx context.Context) error {
	for _, name := range c.names {
		list, err := c.tags(ctx, name)
		if err != nil {
			return err
		}
		for _, tag := range list {
			err := c.walk(ctx, name, tag, func(d digest.Digest) { c.marked[d] = true })
			if err != nil && !errors.As(err, new(distribution.ErrTagUnknown)) { // else it was untagged meanwhile
				return fmt.Errorf("%s:%s: %w", name, tag, err)
			}
		}
	}
	return nil
}

// sweep removes the rest: manifests and links of the repositories first, so that no
// link leads to data that is gone.
func (c *collection) sweep(ctx context.Context) error {
	v := storage.NewVacuum(ctx, c.driver)
	for _, name := range c.names {
		tags, err := c.tags(ctx, name)
		if err != nil {
			return err
		}
		named, err := reference.WithName(name)
		if err != nil {
			return err
		}
		repo, err := c.images.Repository(ctx, named)
		if err != nil {
			return err
		}
		manifests, err := repo.Manifests(ctx)
		if err != nil {
			return err
		}
		if err := c.each(ctx, manifests, func(d digest.Digest) error { return v.RemoveManifest(name, d, tags) }); err != nil {
			return err
		}
		if err := c.each(ctx, repo.Blobs(ctx), func(d digest.Digest) error { return v.RemoveLayer(name, d) }); err != nil {
			return err
		}
	}
	return c.each(ctx, c.images.Blobs(), func(d digest.Digest) error {
		err := v.RemoveBlob(d.String())
		if err == nil {
			c.freed += c.usage.gone(d.String())
		}
		return err
	})
}

// each calls remove with what a store has, is not marked, and was not asked for lately.
func (c *collection) each(ctx context.Context, store any, remove func(digest.Digest) error) error {
	all, ok := store.(distribution.BlobEnumerator)
	if !ok {
		return errors.New("the registry cannot list what it holds")
	}
	var unneeded []digest.Digest
	err := all.Enumerate(ctx, func(d digest.Digest) error {
		if !c.marked[d] {
			unneeded = append(unneeded, d)
		}
		return nil
	})
	if err != nil && !errors.As(err, new(driver.PathNotFoundError)) {
		return err
	}
	for _, d := range unneeded {
		if err := c.remove(d, remove); err != nil && !errors.As(err, new(driver.PathNotFoundError)) {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return ctx.Err()
}

// remove removes what has a digest, unless a client has asked for that digest since.
func (c *collection) remove(d digest.Digest, remove func(digest.Digest) error) error {
	c.usage.mu.Lock()
	defer c.usage.mu.Unlock()
	if at, ok := c.usage.touched[d.String()]; ok && time.Since(at) < c.age {
		return nil
	}
	return remove(d)
}
