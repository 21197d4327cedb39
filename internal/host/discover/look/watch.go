// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/core/paths"
)

// A look waits for this long after the one before, and for 20 times the CPU time of that: at
// most a twentieth of a CPU is spent on looks, however many devices there are. Time in which
// other programs have the CPU does not count, or a busy host would be looked at too seldom.
const (
	often  = 100 * time.Millisecond
	seldom = time.Second
	part   = 20
)

// atOnce is how many namespaces are looked into at a look.
const atOnce = 32

// Watcher follows the paths of workloads in the namespace of the process.
type Watcher struct {
	kernel kernel
	asked  chan struct{}

	mu        sync.Mutex
	links     []paths.Link
	workloads []paths.Workload

	seen map[string]seen // by the workload's key; Run's own
	next int             // workload that is looked into next
}

// New returns a Watcher that has not looked yet.
func New() (*Watcher, error) {
	ask, err := netlink.NewHandle()
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return &Watcher{kernel: kernel{ask}, asked: make(chan struct{}, 1), seen: map[string]seen{}}, nil
}

// Ask says what to look at from now on. The arguments are not changed afterwards.
func (w *Watcher) Ask(links []paths.Link, workloads []paths.Workload) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reflect.DeepEqual(w.links, links) && reflect.DeepEqual(w.workloads, workloads) {
		return
	}
	w.links, w.workloads = links, workloads
	select {
	case w.asked <- struct{}{}:
	default:
	}
}

// Run reports what follows from the host's devices, at once and when it differs, until ctx ends.
// A value in changes says that devices have changed.
func (w *Watcher) Run(ctx context.Context, changes <-chan struct{}, report func(paths.Result)) error {
	defer w.kernel.ask.Close()
	runtime.LockOSThread() // whose CPU time a look is
	defer runtime.UnlockOSThread()
	var last paths.Result
	reported := false
	for {
		begin := spent()
		now, err := w.Look()
		if err == nil && (!reported || !reflect.DeepEqual(now, last)) {
			report(now)
			last, reported = now, true
		}
		pause := max(often, part*(spent()-begin))
		if !rest(ctx, pause, nil, nil) || !rest(ctx, max(pause, seldom)-pause, changes, w.asked) {
			return ctx.Err()
		}
	}
}

// spent returns the CPU time that the thread has had; 0 on a kernel that does not say.
func spent() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
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
	w.mu.Unlock()
	h, err := w.kernel.read()
	if err != nil {
		return paths.Result{}, err
	}
	workloads := append([]paths.Workload(nil), asked...)
	w.visit(h, workloads, links)
	for i := range workloads {
		s := w.seen[workloads[i].Key]
		workloads[i].Inside, workloads[i].Past = s.inside, s.past
	}
	return paths.Of(h.devices, links, workloads), nil
}

// visit looks into the namespaces of the workloads whose turn it is, and forgets those that are gone.
func (w *Watcher) visit(h host, workloads []paths.Workload, links []paths.Link) {
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
	for range min(atOnce, len(workloads)) {
		w.next = (w.next + 1) % len(workloads)
		one := workloads[w.next]
		w.seen[one.Key] = w.kernel.look(h, one, w.seen[one.Key])
	}
}
