// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// nest makes folders in each other, by one call each: no path has to name them all.
func nest(t *testing.T, folder, name string, levels int) (innermost int) {
	t.Helper()
	at, err := unix.Open(folder, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range levels {
		if err == nil {
			err = unix.Mkdirat(at, name, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		var next int
		next, err = unix.Openat(at, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		at = next
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(at) })
	return at
}

// TestMappingsWithLongPaths: a process has some 65,000 mappings, each of a file whose path has up
// to 4,096 letters: a quarter of a GB of text in /proc.
func TestMappingsWithLongPaths(t *testing.T) {
	const mappings = 20000
	folder := nest(t, t.TempDir(), strings.Repeat("d", 255), 15)
	fd, err := unix.Openat(folder, "f", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 4096); err != nil {
		t.Fatal(err)
	}
	for range mappings {
		m, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(m) })
	}
	cost := boundtest.Measure(func() {
		undumpableMemory(os.Getpid(), func(code string, _ int, _, _ string, _ ...any) { t.Errorf("found %s", code) })
	})
	t.Logf("%d MB, %v", cost.Bytes>>20, cost.CPU)
	if cost.Bytes > bound.Memory {
		t.Errorf("takes %d MB", cost.Bytes>>20)
	}
}

// TestDeepFolder: a container makes folders in each other without end. Each was looked for by its
// whole path: 4,000 took 19 s, 100,000 would take hours.
func TestDeepFolder(t *testing.T) {
	top := t.TempDir()
	file := []byte("seven\n\n")
	if err := os.WriteFile(top+"/a", file, 0o600); err != nil {
		t.Fatal(err)
	}
	at := nest(t, top, "d", 40)
	if err := os.WriteFile(fmt.Sprintf("/proc/self/fd/%d/a", at), file, 0o600); err != nil {
		t.Fatal(err)
	}
	nest(t, top, "e", 4000)
	boundtest.Hold(t, func() {
		if size := FolderSize(top); size != 2*int64(len(file)) {
			t.Errorf("%d bytes, want %d", size, 2*len(file))
		}
	})
}

// TestFolderOfManyFiles: no more names are read at once than are looked at.
func TestFolderOfManyFiles(t *testing.T) {
	top := t.TempDir()
	const files = 3 * mostEntries
	for i := range files {
		if err := os.WriteFile(fmt.Sprintf("%s/%d", top, i), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if size := FolderSize(top); size != files {
		t.Errorf("%d bytes, want %d", size, files)
	}
}
