// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"weir/internal/test/dockertest"
)

// One private engine serves all tests that want a real one: starting it takes
// longer than most of them.
var shared struct {
	once   sync.Once
	engine *dockertest.Engine
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.engine != nil {
		if err := shared.engine.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the private Docker engine:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// realEngine skips the test, with the reason, where no engine can be started.
func realEngine(t *testing.T) *dockertest.Engine {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: starts a Docker engine")
	}
	shared.once.Do(func() { shared.engine, shared.err = dockertest.Start(context.Background(), "") })
	if errors.Is(shared.err, dockertest.ErrNotPossible) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.engine
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("makes network namespaces: needs root")
	}
}

// logger prints with the test.
func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// patient is how long a test waits for something that should happen at once.
const patient = 20 * time.Second

// runLinks follows the devices of a namespace until the test ends.
func runLinks(t *testing.T, path string) *Links {
	t.Helper()
	links, err := NewLinks(logger(t), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- links.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("links: %v", err)
		}
		links.Close()
	})
	return links
}

// reports runs a source until the test ends and keeps what it reports.
type reports struct {
	t    *testing.T
	stop func() // ends the source early

	mu      sync.Mutex
	last    []Workload
	count   int
	times   map[string]time.Time // when a key was first reported with a device
	changed chan struct{}
}

func runSource(t *testing.T, s Source) *reports {
	t.Helper()
	r := &reports{t: t, changed: make(chan struct{}), times: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, r.take) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", s.Name(), err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *reports) take(list []Workload) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = list
	r.count++
	for _, w := range list {
		if _, seen := r.times[w.Key]; !seen && len(w.Devices) > 0 {
			r.times[w.Key] = time.Now()
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait returns the first list from now on that is as wanted.
func (r *reports) wait(what string, wanted func([]Workload) bool) []Workload {
	r.t.Helper()
	timeout := time.After(patient)
	for {
		r.mu.Lock()
		list, changed, count := r.last, r.changed, r.count
		r.mu.Unlock()
		if count > 0 && wanted(list) {
			return list
		}
		select {
		case <-changed:
		case <-timeout:
			r.t.Fatalf("waited %s for %s; the last of %d lists:%s", patient, what, count, show(list))
		}
	}
}

// waitFor returns a workload once it is as wanted.
func (r *reports) waitFor(key, what string, wanted func(Workload) bool) Workload {
	r.t.Helper()
	list := r.wait(key+" "+what, func(list []Workload) bool {
		w, ok := byKey(list, key)
		return ok && wanted(w)
	})
	w, _ := byKey(list, key)
	return w
}

func (r *reports) waitGone(key string) {
	r.t.Helper()
	r.wait(key+" to be gone", func(list []Workload) bool { _, ok := byKey(list, key); return !ok })
}

// seen waits until key is reported with a device, and says whether it was. Unlike wait it may be
// called by any goroutine.
func (r *reports) seen(key string) bool {
	timeout := time.After(patient)
	for {
		r.mu.Lock()
		at, changed := r.times[key], r.changed
		r.mu.Unlock()
		if !at.IsZero() {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

// firstSeen returns when key was first reported with a device, forgetting it.
func (r *reports) firstSeen(key string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.times[key]
	delete(r.times, key)
	return at
}

func withDevices(n int) func(Workload) bool {
	return func(w Workload) bool { return len(w.Devices) == n }
}

func byKey(list []Workload, key string) (Workload, bool) {
	for _, w := range list {
		if w.Key == key {
			return w, true
		}
	}
	return Workload{}, false
}

func show(list []Workload) string {
	if len(list) == 0 {
		return " empty"
	}
	s := ""
	for _, w := range list {
		s += fmt.Sprintf("\n\t%s id %.12s %v %v note %q", w.Key, w.ID, w.Devices, w.Cgroups, w.Note)
	}
	return s
}
