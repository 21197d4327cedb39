// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLinksThatAreSwappedInWhileItIsUnpacked: on the target a container has mounted the
// volume already, and puts links in the place of files and folders as they are made. What
// the links lead to keeps its content, owner, mode and attributes, and gets no files.
func TestLinksThatAreSwappedInWhileItIsUnpacked(t *testing.T) {
	outside, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte(outsideSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	before := listing(t, outside)
	var entries []entry
	for i := range 20 {
		folder, name := fmt.Sprintf("folder%d", i), fmt.Sprintf("file%d", i)
		entries = append(entries, made('5', folder, ""), file(folder+"/file", "written"), file(name, "written"))
		entries[len(entries)-1].Mode = 0o4777
	}
	archive := forged(t, entries...)
	ctx, cancel := context.WithCancel(t.Context())
	var racers sync.WaitGroup
	var swaps atomic.Int64
	for i, target := range []string{outside, filepath.Join(outside, "file")} {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		racers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name := filepath.Join(to, fmt.Sprintf("%s%d", []string{"folder", "file"}[i], n%20))
				err := unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
				if err == nil {
					swaps.Add(1)
				} else if !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
					return
				}
			}
		})
	}
	whole := 0
	for range 60 {
		if _, err := readAll(bytes.NewReader(archive), to); err == nil {
			whole++
		}
		list, err := os.ReadDir(to)
		if err != nil {
			t.Fatal(err)
		}
		for _, left := range list {
			_ = os.RemoveAll(filepath.Join(to, left.Name()))
		}
	}
	cancel()
	racers.Wait()
	t.Logf("60 archives unpacked, %d of them to their end, %d exchanges", whole, swaps.Load())
	if swaps.Load() < 1000 {
		t.Errorf("only %d exchanges", swaps.Load())
	}
	if after := listing(t, outside); after != before {
		t.Errorf("outside of the volume there was\n%sand is\n%s", before, after)
	}
}
