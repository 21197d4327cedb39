// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"weir/internal/host/discover/engine"
)

// fakeLinks is a linkTable made by hand. Namespaces are known by the path of
// their file.
type fakeLinks struct {
	mu         sync.Mutex
	links      []link
	namespaces map[string]*namespace
	ends       map[*namespace][]Device
	watchers   []chan struct{}
}

func newFakeLinks() *fakeLinks {
	return &fakeLinks{namespaces: map[string]*namespace{}, ends: map[*namespace][]Device{}}
}

func (f *fakeLinks) Watch() (<-chan struct{}, func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := make(chan struct{}, 1)
	f.watchers = append(f.watchers, w)
	return w, func() {}
}

// change changes the table and wakes the watchers.
func (f *fakeLinks) change(how func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how()
	for _, w := range f.watchers {
		poke(w)
	}
}

// addNamespace makes a namespace with one veth pair for each index.
func (f *fakeLinks) addNamespace(path string, ifindexes ...int) {
	f.change(func() {
		ns := &namespace{nsid: len(f.ends)}
		f.namespaces[path] = ns
		f.ends[ns] = []Device{}
		for _, i := range ifindexes {
			f.ends[ns] = append(f.ends[ns], Device{Name: "veth" + strconv.Itoa(i), Ifindex: i, PeerIfindex: i + 1})
		}
	})
}

func (f *fakeLinks) dropNamespace(path string) {
	f.change(func() {
		f.namespaces[path].gone = true
		delete(f.namespaces, path)
	})
}

// setLinks replaces the devices.
func (f *fakeLinks) setLinks(links ...link) { f.change(func() { f.links = links }) }

func (f *fakeLinks) list() []link {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.links)
}

func (f *fakeLinks) resolve(path string) (*namespace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ns := f.namespaces[path]; ns != nil {
		return ns, nil
	}
	return nil, fs.ErrNotExist
}

func (f *fakeLinks) alive(ns *namespace) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ns != nil && !ns.gone
}

func (f *fakeLinks) devices(ns *namespace) []Device {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ns == nil || ns.gone {
		return nil
	}
	return slices.Clone(f.ends[ns])
}

func (f *fakeLinks) unclaimed(claimed map[*namespace]bool) map[int]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := map[int]bool{}
	for ns := range f.ends {
		if !ns.gone && !claimed[ns] {
			rest[ns.nsid] = true
		}
	}
	return rest
}

// fakeProc is a folder that looks like /proc.
type fakeProc struct{ dir string }

func newFakeProc(t testing.TB) fakeProc { return fakeProc{t.TempDir()} }

// add makes a process in the cgroup of a container, and returns the path of its
// network namespace.
func (p fakeProc) add(t testing.TB, pid int, container string) (netns string) {
	t.Helper()
	dir := filepath.Join(p.dir, strconv.Itoa(pid))
	path := filepath.Join(dir, "ns/net")
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(filepath.Join(dir, "cgroup"), []byte("1:cpu:/docker/"+container+"\n"), 0o644),
		os.Symlink("net:["+strconv.Itoa(pid)+"]", path),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// endThread ends the first thread of a process, and returns the file of another one's network
// namespace.
func (p fakeProc) endThread(t testing.TB, pid, other int) (netns string) {
	t.Helper()
	dir := filepath.Join(p.dir, strconv.Itoa(pid))
	path := filepath.Join(dir, "task", strconv.Itoa(other), "ns/net")
	for _, err := range []error{os.MkdirAll(filepath.Dir(path), 0o755), os.Rename(filepath.Join(dir, "ns/net"), path)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// end takes a process away.
func (p fakeProc) end(t testing.TB, pid int) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.dir, strconv.Itoa(pid))); err != nil {
		t.Fatal(err)
	}
}

// enter puts a process into the cgroups that text says.
func (p fakeProc) enter(t testing.TB, pid int, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, strconv.Itoa(pid), "cgroup"), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// mayAdmin gives a process CAP_NET_ADMIN in a user namespace.
func (p fakeProc) mayAdmin(t testing.TB, pid int, users string) {
	t.Helper()
	dir := filepath.Join(p.dir, strconv.Itoa(pid))
	err := errors.Join(os.WriteFile(filepath.Join(dir, "status"), []byte("Name:\tsh\nCapBnd:\t0000000000001000\n"), 0o644),
		os.Symlink(users, filepath.Join(dir, "ns/user")))
	if err != nil {
		t.Fatal(err)
	}
}

// fakeEngine is an engine whose containers a test starts and stops. It never
// sends an event by itself.
type fakeEngine struct {
	mu         sync.Mutex
	containers map[string]engine.Container
	stuck      map[string]chan struct{} // inspects that wait until closed
	down       error                    // what everything answers while set
	events     chan engine.Event
	failed     chan error
	inspects   int
	streams    int    // of events that have begun
	odd        string // a container that is listed, and not running when it is asked for
}

func newFakeEngine(containers ...engine.Container) *fakeEngine {
	e := &fakeEngine{containers: map[string]engine.Container{}, stuck: map[string]chan struct{}{}}
	for _, c := range containers {
		e.containers[c.ID] = c
	}
	return e
}

func (e *fakeEngine) set(c engine.Container, actions ...string) {
	e.mu.Lock()
	e.containers[c.ID] = c
	e.mu.Unlock()
	e.tell(c.ID, actions...)
}

func (e *fakeEngine) remove(id string, actions ...string) {
	e.mu.Lock()
	delete(e.containers, id)
	e.mu.Unlock()
	e.tell(id, actions...)
}

func (e *fakeEngine) tell(id string, actions ...string) {
	e.mu.Lock()
	events := e.events
	e.mu.Unlock()
	for _, a := range actions {
		events <- engine.Event{Container: id, Action: a}
	}
}

// hold makes inspects of a container wait until the returned function is called;
// they answer what was true when they were asked.
func (e *fakeEngine) hold(id string) (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan struct{})
	e.stuck[id] = c
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.stuck, id)
		close(c)
	}
}

func (e *fakeEngine) setDown(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = err
	if err != nil && e.failed != nil {
		e.failed <- err
		e.failed = nil
	}
}

// counts returns how many inspects and streams of events there were.
func (e *fakeEngine) counts() (inspects, streams int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inspects, e.streams
}

func (e *fakeEngine) Address() string { return "unix:///fake.sock" }

// enginePid is the process of an engine that a test made.
const enginePid = 900

func (e *fakeEngine) Process() int { return enginePid }

func (e *fakeEngine) Close() error { return nil }

func (e *fakeEngine) Events(context.Context) (<-chan engine.Event, <-chan error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	failed := make(chan error, 1)
	if e.down != nil {
		failed <- e.down
		return nil, failed
	}
	e.streams++
	e.events, e.failed = make(chan engine.Event, 100), failed
	return e.events, failed
}

func (e *fakeEngine) Running(context.Context) ([]engine.Container, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []engine.Container
	for _, c := range e.containers {
		if c.Running {
			c.Pid = 0
			list = append(list, c)
		}
	}
	return list, e.down
}

func (e *fakeEngine) Summary(_ context.Context, id string) (engine.Container, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return engine.Container{}, engine.ErrNoContainer
	}
	c.Pid = 0
	return c, e.down
}

func (e *fakeEngine) Inspect(ctx context.Context, id string) (engine.Container, error) {
	e.mu.Lock()
	e.inspects++
	c, ok := e.containers[id]
	stuck, down := e.stuck[id], e.down
	c.Running = c.Running && id != e.odd
	e.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return engine.Container{}, ctx.Err()
		}
	}
	if !ok {
		return engine.Container{}, engine.ErrNoContainer
	}
	return c, down
}
