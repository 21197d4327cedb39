// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Inner is a cgroup inside of this process's for single threads of it. What a thread there opens
// is told apart from what the others do: a socket is of the cgroup of the thread that made it.
type Inner struct{ path string }

// NewInner makes the cgroup, or takes the one that an earlier process has made. The error says why
// that cannot be: cgroups of version 1, or a read-only file system, as in a container.
func NewInner(name string) (*Inner, error) {
	hierarchy := Read()
	if trouble := hierarchy.Trouble(); trouble != "" {
		return nil, errors.New(trouble)
	}
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	g := &Inner{filepath.Join(hierarchy.Root, Of(string(text)), name)}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	kind := filepath.Join(g.path, "cgroup.type")
	if err := os.WriteFile(kind, []byte("threaded"), 0); err != nil {
		_ = os.Remove(g.path)
		return nil, fmt.Errorf("make %s one of threads: %w", g.path, err)
	}
	return g, nil
}

// Path returns its folder.
func (g *Inner) Path() string { return g.path }

// Do runs f on a thread of its own in the cgroup.
func (g *Inner) Do(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- onThread(func() error { return g.enter(f) }) }()
	return <-done
}

// enter moves the thread that runs it to the cgroup, then runs f.
func (g *Inner) enter(f func() error) error {
	thread := []byte(strconv.Itoa(unix.Gettid()))
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.threads"), thread, 0); err != nil {
		return err
	}
	return f()
}

// onThread runs f on the thread of this goroutine, which ends with it. The process's first thread
// never ends, and its cgroup is what the kernel says of the process: where the goroutine has that
// one, it holds it until another has run f.
func onThread(f func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		return f()
	}
	defer runtime.UnlockOSThread()
	done := make(chan error, 1)
	go func() { done <- onThread(f) }()
	return <-done
}

// Close removes the cgroup. Sockets that were made there stay open.
func (g *Inner) Close() error { return os.Remove(g.path) }
