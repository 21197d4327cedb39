// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"weir/internal/core/paths"
	"weir/internal/host/discover/notice"
	"weir/internal/host/dump"
)

// A look waits for this long after the one before, and for 20 times the CPU time of that: at
// most a twentieth of a CPU is spent on looks, however many devices there are. Time in which
// other programs have the CPU does not count, or a busy host would be looked at too seldom.
const (
	often  = 100 * time.Millisecond
	seldom = time.Second
	part   = 20
)

// atOnce is how many workloads' namespaces are looked into at a look: of those that are new or have
// changed, and of those that receive.
const atOnce = 32

// quietAtOnce is how many beside them, of workloads that had received nothing between the last two
// looks, if something has come by the links since.
const quietAtOnce = 100

// Watcher follows the paths of workloads in the namespace of the process.
type Watcher struct {
	kernel  kernel
	linked  func() bool
	changes *changes
	asked   chan struct{}

	mu        sync.Mutex
	links     []paths.Link
	workloads []paths.Workload
	fresh     bool // they have not been looked at

	// Run's own:
	host host
	read time.Time       // when host was
	seen map[string]seen // by the workload's key
	// What followed from all this last, and whether some of it has changed since.
	found   paths.Result
	changed bool
	// Workloads that were looked into last, of those with news, of those that receive and of
	// the quiet ones.
	nextNew, next, nextQuiet int
	arrived                  uint64 // packets by the links when the quiet ones were looked into last
}

// New returns a Watcher that has not looked yet. linked reports whether a program of XDP was put to
// a device since it was asked last, without a notice of the kernel's.
func New(linked func() bool) (*Watcher, error) {
	ask, err := netlink.NewHandle()
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	lists, err := dump.NewAsker()
	if err != nil {
		ask.Close()
		return nil, err
	}
	return &Watcher{kernel: kernel{ask, lists}, linked: linked, changes: newChanges(), asked: make(chan struct{}, 1), seen: map[string]seen{}}, nil
}

// Ask says what to look at from now on. The arguments are not changed afterwards.
func (w *Watcher) Ask(links []paths.Link, workloads []paths.Workload) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reflect.DeepEqual(w.links, links) && reflect.DeepEqual(w.workloads, workloads) {
		return
	}
	w.links, w.workloads, w.fresh = links, workloads, true
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// Run reports what follows from the host's devices, at once and when it differs, until ctx ends.
// A value in changes says that devices have changed.
func (w *Watcher) Run(ctx context.Context, changes <-chan struct{}, report func(paths.Result)) error {
	defer w.kernel.ask.Close()
	defer w.kernel.lists.Close()
	defer w.changes.close()
	runtime.LockOSThread() // whose CPU time a look is
	defer runtime.UnlockOSThread()
	var last paths.Result
	reported := false
	for {
		begin := notice.Spent()
		now, err := w.Look()
		if err == nil && (!reported || !reflect.DeepEqual(now, last)) {
			report(now)
			last, reported = now, true
		}
		pause := max(often, part*(notice.Spent()-begin))
		if !rest(ctx, pause, nil, nil) || !rest(ctx, max(pause, seldom)-pause, changes, w.asked) {
			return ctx.Err()
		}
	}
}

// rest waits until one of the channels has a value, or for d. It reports false when ctx has ended.
func rest(ctx context.Context, d time.Duration, changes, asked <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-changes:
	case <-asked:
	}
	return true
}

// Look reads the host once.
func (w *Watcher) Look() (paths.Result, error) {
	w.mu.Lock()
	links, asked := w.links, w.workloads
	w.changed = w.changed || w.fresh
	w.fresh = false
	w.mu.Unlock()
	news := w.changes.take()
	news.here = news.here || w.linked() || w.host.programmed(asked) || w.kernel.isHost(news.inside)
	if err := w.reread(news.here); err != nil {
		return paths.Result{}, err
	}
	w.touch(asked, news)
	w.visit(asked, links)
	if !w.changed {
		return w.found, nil
	}
	workloads := append([]paths.Workload(nil), asked...)
	for i := range workloads {
		s := w.seen[workloads[i].Key]
		workloads[i].Inside, workloads[i].Past = s.inside, s.past
	}
	w.found, w.changed = paths.Of(w.host.devices, links, workloads), false
	return w.found, nil
}

// reread reads the devices of the host if they have changed, or may have.
func (w *Watcher) reread(changed bool) error {
	if !changed && w.changes.fd >= 0 && time.Since(w.read) < unsure {
		return nil
	}
	h, err := w.kernel.read()
	if err != nil {
		w.changes.unread = true
		return err
	}
	w.host, w.read, w.changed = h, time.Now(), true
	return nil
}

// touch notes which workloads have changed inside, or lead elsewhere.
func (w *Watcher) touch(workloads []paths.Workload, n news) {
	if len(n.inside) == 0 && !n.lost && !w.changed {
		return
	}
	for _, one := range workloads {
		s, ok := w.seen[one.Key]
		if ok && !s.touched && (n.lost || slices.ContainsFunc(s.spaces, func(nsid int) bool { return n.inside[nsid] }) || s.moved(w.host, one)) {
			s.touched = true
			w.seen[one.Key] = s
		}
	}
}

// visit looks into the namespaces of the workloads whose turn it is, and forgets those that are
// gone.
func (w *Watcher) visit(workloads []paths.Workload, links []paths.Link) {
	there := map[string]bool{}
	for _, one := range workloads {
		there[one.Key] = true
	}
	for key := range w.seen {
		if !there[key] {
			delete(w.seen, key)
		}
	}
	if len(links) == 0 {
		return
	}
	w.nextNew = w.turns(workloads, w.nextNew, atOnce, seen.fresh)
	w.next = w.turns(workloads, w.next, atOnce, func(before seen) bool { return !before.quiet })
	if w.came(links) {
		w.nextQuiet = w.turns(workloads, w.nextQuiet, quietAtOnce, func(before seen) bool { return before.quiet })
	}
}

// came reports whether more packets have come by the links since it was true last than may get past
// a port without being said, so that those of a quiet workload may be among them.
func (w *Watcher) came(links []paths.Link) bool {
	now := w.kernel.arrived(w.host, links)
	if now >= w.arrived && now-w.arrived <= someMore {
		return false
	}
	w.arrived = now
	return true
}

// turns looks into the namespaces of as many workloads as may have a turn, from the one after at
// on, and returns the last.
func (w *Watcher) turns(workloads []paths.Workload, at, most int, has func(before seen) bool) int {
	for range workloads {
		if most == 0 {
			break
		}
		at = (at + 1) % len(workloads)
		one := workloads[at]
		if before := w.seen[one.Key]; has(before) {
			now := w.kernel.look(w.host, one, before, w.changes.told)
			w.changed = w.changed || now.past != before.past || !slices.Equal(now.inside, before.inside)
			w.seen[one.Key] = now
			most--
		}
	}
	return at
}
