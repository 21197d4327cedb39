// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// outsideSecret is the content of a file outside the volume that only root can read.
const outsideSecret = "a secret of root's, outside of the volume"

// swapper exchanges two names again and again, as a container does that shares a
// volume with the one that is packed. It counts the exchanges.
func swapper(ctx context.Context, t *testing.T, wait *sync.WaitGroup, swaps *atomic.Int64, a, b string) {
	t.Helper()
	wait.Go(func() {
		for ctx.Err() == nil {
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Errorf("exchange %s and %s: %v", a, b, err)
				return
			}
			swaps.Add(1)
		}
	})
}

// hostileVolume returns a volume in which files and folders trade places with links
// that lead out of it, to files and folders that only root may read.
func hostileVolume(ctx context.Context, t *testing.T, wait *sync.WaitGroup, swaps *atomic.Int64) (volume string) {
	t.Helper()
	outside, volume := filepath.Join(t.TempDir(), "outside"), t.TempDir()
	// Folders of the same form, so that a walk that follows a link finds what it expects.
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(outside, 0o700))
	must(os.WriteFile(filepath.Join(outside, "file"), []byte(outsideSecret), 0o600))
	for i := range 6 {
		file, link := filepath.Join(volume, fmt.Sprintf("file%02d", i)), filepath.Join(volume, fmt.Sprintf("link%02d", i))
		must(os.WriteFile(file, bytes.Repeat([]byte("x"), len(outsideSecret)), 0o644))
		must(os.Symlink(filepath.Join(outside, "file"), link))
		folder, other := filepath.Join(volume, fmt.Sprintf("folder%02d", i)), filepath.Join(volume, fmt.Sprintf("other%02d", i))
		must(os.Mkdir(folder, 0o755))
		must(os.WriteFile(filepath.Join(folder, "file"), bytes.Repeat([]byte("y"), len(outsideSecret)), 0o644))
		must(os.Symlink(outside, other))
		if i < 2 {
			swapper(ctx, t, wait, swaps, file, link)
			swapper(ctx, t, wait, swaps, folder, other)
		}
	}
	return volume
}

// TestLinksThatAreSwappedInLeadNowhere: 1,000 archives of a volume are made while
// files and the folders above files are swapped for links to what only root may read.
// No archive has a byte of that.
func TestLinksThatAreSwappedInLeadNowhere(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var racers sync.WaitGroup
	defer racers.Wait()
	defer cancel()
	var swaps atomic.Int64
	volume := hostileVolume(ctx, t, &racers, &swaps)
	leaked, failed := 0, 0
	for range 1000 {
		var b bytes.Buffer
		if _, err := Write(&b, volume); err != nil {
			failed++
			t.Logf("not packed: %v", err)
			continue
		}
		z, err := zstd.NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		z.Close()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(outsideSecret)) {
			leaked++
		}
	}
	t.Logf("1000 archives, %d exchanges: %d not made, %d with bytes from outside of the volume", swaps.Load(), failed, leaked)
	if leaked > 0 || failed > 0 {
		t.Errorf("%d of 1000 archives hold bytes from outside of the volume, %d could not be made", leaked, failed)
	}
	if swaps.Load() < 1000 {
		t.Errorf("only %d exchanges", swaps.Load())
	}
}

// TestNoFileIsOpenedThatIsNone: a file that becomes a FIFO while it is packed does not
// stop the packing; nor is a socket or a device ever opened.
func TestNoFileIsOpenedThatIsNone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var racers sync.WaitGroup
	defer racers.Wait()
	defer cancel()
	volume := t.TempDir()
	file, fifo := filepath.Join(volume, "file"), filepath.Join(volume, "pipe")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var swaps atomic.Int64
	swapper(ctx, t, &racers, &swaps, file, fifo)
	done := make(chan error, 1)
	go func() {
		for range 2000 {
			if _, err := Write(io.Discard, volume); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("packing stands still: a FIFO was opened (%d exchanges)", swaps.Load())
		cancel()
		racers.Wait()
		for range 3 { // let it go
			if f, err := os.OpenFile(fifo, os.O_RDWR|unix.O_NONBLOCK, 0); err == nil {
				time.Sleep(100 * time.Millisecond)
				f.Close()
			}
		}
	}
}

// TestAFileThatChangesSizeWhileItIsPacked: the archive is one that can be unpacked,
// whether the file grows or shrinks meanwhile, and its other files are whole.
func TestAFileThatChangesSizeWhileItIsPacked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var racers sync.WaitGroup
	defer racers.Wait()
	defer cancel()
	volume := t.TempDir()
	changing, last := filepath.Join(volume, "changing"), filepath.Join(volume, "last")
	if err := os.WriteFile(changing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(last, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	racers.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if err := os.Truncate(changing, int64(i%3)<<20); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 200 {
		var b bytes.Buffer
		if _, err := Write(&b, volume); err != nil {
			t.Fatalf("archive %d: %v", i, err)
		}
		to := t.TempDir()
		if _, err := readAll(&b, to); err != nil {
			t.Fatalf("archive %d cannot be unpacked: %v", i, err)
		}
		if text, err := os.ReadFile(filepath.Join(to, "last")); err != nil || string(text) != "whole" {
			t.Fatalf("archive %d: the file after it is %q, %v", i, text, err)
		}
	}
}
