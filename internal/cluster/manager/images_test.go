// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net"
	"testing"

	"weir/internal/cluster/migrate/registry"
	"weir/internal/core/wire"
)

// TestStatusShowsTheRegistry: Cluster, which weir manager status shows, has the limits and
// the contents of the manager's own registry, and nothing of it where there is none.
func TestStatusShowsTheRegistry(t *testing.T) {
	b := newBed(t, "a")
	var err error
	if b.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.listener.Close() })
	without, err := b.Cluster(t.Context())
	if err != nil || without.Images != nil {
		t.Errorf("without a registry of its own: %+v, %v", without.Images, err)
	}
	b.opts.Registry = wire.OwnRegistry
	b.opts.Images = registry.Quota{NodeBytes: 20e9, Bytes: 100e9, FreeBytes: 1e9}
	if err := b.openImages(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.closeImages() })
	with, err := b.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := with.Images; i == nil || i.LimitBytes != 100e9 || i.NodeLimitBytes != 20e9 || i.KeepFreeBytes != 1e9 || i.Nodes == nil {
		t.Errorf("with a registry of its own: %+v", i)
	}
}
