// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// table has the host's devices, by their index.
type table struct {
	mu       sync.Mutex
	devices  map[int]string
	watchers []chan struct{}
}

func (t *table) Named(ifindex int) (name string, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, there = t.devices[ifindex]
	return name, there
}

func (t *table) Watch() (changes <-chan struct{}, stop func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := make(chan struct{}, 1)
	t.watchers = append(t.watchers, w)
	return w, func() {}
}

func (t *table) remove(ifindex int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.devices, ifindex)
	for _, w := range t.watchers {
		w <- struct{}{}
	}
}

// script is a source that finds what a test says.
type script chan []discover.Workload

func (script) Name() string { return "script" }

func (s script) Run(ctx context.Context, report func([]discover.Workload)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case list := <-s:
			report(list)
		}
	}
}

// bench has Ports over devices 1 to 4 and two sources.
type bench struct {
	*table
	ports   *Ports
	sources [2]script
	mu      sync.Mutex
	said    [2]string
}

func newBench(t *testing.T) *bench {
	b := &bench{table: &table{devices: map[int]string{1: "v1", 2: "v2", 3: "v3", 4: "v4"}}}
	b.ports = New(b.table)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for i := range b.sources {
		b.sources[i] = make(script)
		held := b.ports.Hold(b.sources[i])
		running.Go(func() {
			_ = held.Run(ctx, func(list []discover.Workload) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.said[i] = text(list)
			})
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return b
}

// text writes a list as "web: v1 v2*", with * for what is held and ! for what has ended.
func text(list []discover.Workload) string {
	var words []string
	for _, w := range list {
		word := w.Name
		if w.Ended {
			word += "!"
		}
		word += ":"
		for _, d := range w.Devices {
			word += " " + d.Name
			if d.Held {
				word += "*"
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func has(kind, name string, ifindexes ...int) discover.Workload {
	w := discover.Workload{Key: workload.Key(kind, name), ID: "id-" + name, Name: name, Kind: kind}
	for _, i := range ifindexes {
		w.Devices = append(w.Devices, discover.Device{Name: fmt.Sprintf("v%d", i), Ifindex: i})
	}
	return w
}

// step is what one of the sources finds, or that a device goes, and what both report after it.
type step struct {
	source int
	finds  []discover.Workload
	gone   int
	want   [2]string
}

func TestPorts(t *testing.T) {
	web := func(devices ...int) discover.Workload { return has(workload.KindDocker, "web", devices...) }
	db := func(devices ...int) discover.Workload { return has(workload.KindDocker, "db", devices...) }
	pod := func(devices ...int) discover.Workload { return has(workload.KindPod, "pod", devices...) }
	box := func(devices ...int) discover.Workload { return has(workload.KindNetns, "box", devices...) }
	finds := func(list ...discover.Workload) []discover.Workload { return list }
	for name, steps := range map[string][]step{
		"a device that is moved away": {
			{finds: finds(web(1, 2)), want: [2]string{"web: v1 v2"}},
			{finds: finds(web(2)), want: [2]string{"web: v2 v1*"}},
			{finds: finds(web()), want: [2]string{"web: v1* v2*"}},
			{finds: finds(web(1)), want: [2]string{"web: v1 v2*"}},
			{gone: 2, want: [2]string{"web: v1"}},
		},
		"a container that ends": {
			{finds: finds(web(1)), want: [2]string{"web: v1"}},
			{finds: finds(), want: [2]string{"web!: v1*"}},
			{gone: 1, want: [2]string{""}},
		},
		"a container that starts anew while a device of the former is there": {
			{finds: finds(web(1)), want: [2]string{"web: v1"}},
			{finds: finds(), want: [2]string{"web!: v1*"}},
			{finds: finds(web(2)), want: [2]string{"web: v2 v1*"}},
			{finds: finds(), want: [2]string{"web!: v1* v2*"}},
		},
		"a device that another workload has": {
			{finds: finds(db(), web(1)), want: [2]string{"db:, web: v1"}},
			{finds: finds(db(), web()), want: [2]string{"db:, web: v1*"}},
			{finds: finds(db(1), web()), want: [2]string{"db: v1, web:"}},
			{finds: finds(db(), web()), want: [2]string{"db: v1*, web:"}},
		},
		"a device that another source finds": {
			{finds: finds(web(1)), want: [2]string{"web: v1", ""}},
			{source: 1, finds: finds(box(1)), want: [2]string{"web: v1", "box: v1"}},
			{finds: finds(web()), want: [2]string{"web:", "box: v1"}},
			{source: 1, finds: finds(box()), want: [2]string{"web:", "box: v1*"}},
			{finds: finds(web(1)), want: [2]string{"web: v1", "box:"}},
		},
		"a namespace that is detached": {
			{finds: finds(box(1)), want: [2]string{"box: v1"}},
			{finds: finds(box()), want: [2]string{"box: v1*"}},
			{finds: finds(), want: [2]string{""}},
		},
		"a pod that ends": {
			{finds: finds(pod(1)), want: [2]string{"pod: v1"}},
			{finds: finds(), want: [2]string{"pod!: v1*"}},
			{gone: 1, want: [2]string{""}},
		},
		"a pod of the same name after one that has ended": {
			{finds: finds(pod(1)), want: [2]string{"pod: v1"}},
			{finds: finds(), want: [2]string{"pod!: v1*"}},
			{finds: finds(pod(2)), want: [2]string{"pod: v2 v1*"}},
			{gone: 1, want: [2]string{"pod: v2"}},
		},
		"a pod that ends after it moved its device away": {
			{finds: finds(pod(1)), want: [2]string{"pod: v1"}},
			{finds: finds(pod()), want: [2]string{"pod: v1*"}},
			{finds: finds(), want: [2]string{"pod!: v1*"}},
			{gone: 3, want: [2]string{"pod!: v1*"}},
			{gone: 1, want: [2]string{""}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				for i, s := range steps {
					if s.gone > 0 {
						b.remove(s.gone)
					} else {
						b.sources[s.source] <- s.finds
					}
					synctest.Wait()
					b.mu.Lock()
					if b.said != s.want {
						t.Errorf("step %d: reported %q, not %q", i+1, b.said, s.want)
					}
					b.mu.Unlock()
				}
			})
		})
	}
}

// An agent that starts knows from its predecessor whose a device is, also a pod's that has
// ended.
func TestRecall(t *testing.T) {
	p := New(&table{devices: map[int]string{1: "v1", 2: "v2"}})
	s := p.Hold(make(script)).(*source)
	pod := has(workload.KindPod, "pod", 2)
	pod.Devices[0].Held = true
	s.Recall([]discover.Workload{has(workload.KindDocker, "web", 1), pod, has(workload.KindPod, "other", 3)})
	got := p.settle(s, []discover.Workload{has(workload.KindDocker, "web")})
	if want := "web: v1*, pod!: v2*"; text(got) != want {
		t.Errorf("reported %q, not %q", text(got), want)
	}
	for _, w := range got {
		if !strings.Contains(w.Note, w.Devices[0].Name) {
			t.Errorf("%s: note %q", w.Name, w.Note)
		}
	}
	if left := slices.Sorted(maps.Keys(p.owners)); !slices.Equal(left, []int{1, 2}) {
		t.Errorf("devices known are %v", left)
	}
}
