// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/test/dockertest"
)

// onSmallDisk starts an engine that keeps its data on a file system of so many bytes.
func onSmallDisk(t *testing.T, bytes int64) (*Engine, *dockertest.Engine, string) {
	t.Helper()
	disk, err := os.MkdirTemp("", "weir-disk-") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(disk) })
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	daemon, err := dockertest.StartWith(t.Context(), dockertest.Options{Parent: disk})
	if errors.Is(err, dockertest.ErrNotPossible) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := daemon.Stop(); err != nil {
			t.Error(err)
		}
	})
	e, err := Open(daemon.Client().DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, daemon, disk
}

// freeOn returns the free bytes of a file system.
func freeOn(t *testing.T, disk string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// leastFree watches a file system, and returns the least that was free of it when it is
// called.
func leastFree(t *testing.T, disk string) func() int64 {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	least := make(chan int64)
	go func() {
		low := freeOn(t, disk)
		for ctx.Err() == nil {
			low = min(low, freeOn(t, disk))
			time.Sleep(time.Millisecond)
		}
		least <- low
	}()
	return func() int64 { cancel(); return <-least }
}

// hostileRegistry is a registry of an operator's, on the loopback of an engine, whose only
// image has one layer. It returns its address, and image and manifest by their digests.
func hostileRegistry(t *testing.T, daemon *dockertest.Engine, layer []byte) (address string, made migrate.Committed) {
	t.Helper()
	config := []byte(configFor(t, []string{"l"}, func(string) []byte { return []byte("not that layer") }))
	descriptor := func(kind string, content []byte) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: kind, Digest: digest.Digest(fmt.Sprintf("sha256:%x", sha256.Sum256(content))), Size: int64(len(content))}
	}
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: descriptor(ocispec.MediaTypeImageConfig, config),
		Layers: []ocispec.Descriptor{descriptor(ocispec.MediaTypeImageLayerGzip, layer)}}
	m.SchemaVersion = 2
	manifest, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	own := descriptor(m.MediaType, manifest)
	blobs := map[string][]byte{string(m.Config.Digest): config, string(m.Layers[0].Digest): layer}
	handler := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		what := q.URL.Path[strings.LastIndexByte(q.URL.Path, '/')+1:]
		switch {
		case strings.Contains(q.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", m.MediaType)
			w.Header().Set("Docker-Content-Digest", string(own.Digest))
			w.Write(manifest)
		case strings.Contains(q.URL.Path, "/blobs/"):
			w.Write(blobs[what])
		}
	})
	return serveInside(t, daemon, handler), migrate.Committed{ImageID: string(m.Config.Digest), Digest: string(own.Digest)}
}

// serveInside serves on the loopback of an engine.
func serveInside(t *testing.T, daemon *dockertest.Engine, h http.Handler) string {
	t.Helper()
	var ln net.Listener
	if err := nsthread.InPath(daemon.Netns, func() (err error) {
		ln, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

// TestPullsLeaveTheReserve: layers out of a registry of the operator's own, which Weir does not
// count on their way to the engine, are unpacked by it into many times their length. The
// pull ends before the disk is full, in one clear line, and what came is removed.
func TestPullsLeaveTheReserve(t *testing.T) {
	const size = 1 << 30
	e, daemon, disk := onSmallDisk(t, size)
	address, made := hostileRegistry(t, daemon, bomb(t, 2<<10))
	o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachCommit, Registry: address, Committed: &made,
		Container: migrate.Container{Name: "web", Engine: "docker", Image: "app:1", ImageID: made.ImageID}}
	before := freeOn(t, disk)
	for _, step := range []move.Step{move.PullImage, move.Pull} {
		t.Run(string(step), func(t *testing.T) {
			least := leastFree(t, disk)
			_, err := e.Do(t.Context(), step, o)
			low := least()
			t.Logf("of %d bytes, %d were free at least: %v", size, low, err)
			if err == nil || !strings.Contains(err.Error(), "reserve") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want one line about the reserve", err)
			}
			if low < size/40 {
				t.Errorf("%d bytes of %d were free at least, half the reserve is %d", low, size, size/40)
			}
			for deadline := time.Now().Add(10 * time.Second); freeOn(t, disk) < before-1<<20; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d bytes are free, %d were before", freeOn(t, disk), before)
				}
			}
		})
	}
}
