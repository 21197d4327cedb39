// SPDX-License-Identifier: Apache-2.0

// Package bustest holds what every bus has to do, as tests that run against a real
// one. The tests of package bus/nats and bus/kafka call Run.
package bustest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster/bus"
	"weir/internal/core/wire"
)

// Fixture is a running bus.
type Fixture interface {
	// Manager is the manager's connection; after Restart it may be another.
	Manager(t *testing.T) bus.Admin
	// Node connects one that was admitted.
	Node(t *testing.T, name string, cable *CutDialer) bus.Bus
	// Restart ends the bus, as roughly as it can, and starts it again.
	Restart(t *testing.T)
}

// patience bounds how long a message may take, restarts included.
const patience = 90 * time.Second

// Long is the flag -long of every test that imports this package.
var Long = flag.Bool("long", false, "run tests at their full size: a node cut off for a minute instead of three seconds, a thousand agents, real hosts")

// Run holds a bus to its promises. Each test uses nodes of its own.
func Run(t *testing.T, bed Fixture) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Fixture)
	}{
		{"InOrder", inOrder},
		{"AllNodes", allNodes},
		{"OnlyOwn", onlyOwn},
		{"Again", again},
		{"Duplicates", duplicates},
		{"GoesOnWhereItStopped", goesOn},
		{"NotTakenComesAgain", notTaken},
		{"CatchesUp", catchesUp},
		{"RestartedInTheMiddle", restarted},
		{"Removed", removed},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, bed) })
	}
}

// inbox collects what a handler gets.
type inbox struct {
	mu   sync.Mutex
	list []string
	more chan struct{}
}

func newInbox() *inbox { return &inbox{more: make(chan struct{}, 1)} }

func (i *inbox) take(_ context.Context, m bus.Delivery) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, string(m.Subject)+" "+m.ID+" "+string(m.Data))
	select {
	case i.more <- struct{}{}:
	default:
	}
	return nil
}

// all returns the messages that came, each of them once.
func (i *inbox) all() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var list []string
	for _, m := range i.list {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// want waits until that has come, in that order, and nothing else.
func (i *inbox) want(t *testing.T, want []string) {
	t.Helper()
	late := time.After(patience)
	for len(i.all()) < len(want) {
		select {
		case <-i.more:
		case <-late:
			t.Fatalf("%d of %d messages after %v; first that is missing: %s", len(i.all()), len(want), patience, missing(want, i.all()))
		}
	}
	if got := i.all(); !slices.Equal(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func missing(want, got []string) string {
	for _, w := range want {
		if !slices.Contains(got, w) {
			return w
		}
	}
	return "none"
}

// subscribe runs a subscription until the test ends or stop is called.
func subscribe(t *testing.T, b bus.Bus, durable string, s wire.Subject, h bus.Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Subscribe(ctx, durable, s, h) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("subscription of %s to %s: %v", durable, s, err)
				}
			case <-time.After(patience):
				t.Errorf("subscription of %s to %s does not end", durable, s)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// publish sends messages numbered from first to last.
func publish(t *testing.T, b bus.Bus, s wire.Subject, first, last int) []string {
	t.Helper()
	var sent []string
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for n := first; n <= last; n++ {
		id, data := fmt.Sprintf("%s-%d", s, n), fmt.Sprintf("message %d", n)
		if err := b.Publish(ctx, s, id, []byte(data)); err != nil {
			t.Fatalf("message %d on %s: %v", n, s, err)
		}
		sent = append(sent, string(s)+" "+id+" "+data)
	}
	return sent
}

func admit(t *testing.T, bed Fixture, nodes ...string) bus.Admin {
	t.Helper()
	m := bed.Manager(t)
	for _, node := range nodes {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := m.Admit(ctx, node)
		cancel()
		if err != nil {
			t.Fatalf("admit %s: %v", node, err)
		}
	}
	return m
}

func inOrder(t *testing.T, bed Fixture) {
	m := admit(t, bed, "order")
	node := bed.Node(t, "order", &CutDialer{})
	orders, reports := newInbox(), newInbox()
	subscribe(t, node, "order", "L.order", orders.take)
	subscribe(t, m, "order-test", "R.order", reports.take)
	orders.want(t, publish(t, m, "L.order", 1, 100))
	reports.want(t, publish(t, node, "R.order", 1, 100))
}

func allNodes(t *testing.T, bed Fixture) {
	m := admit(t, bed, "many-1", "many-2")
	got := newInbox()
	subscribe(t, m, "all-test", wire.Heartbeats.All(), got.take)
	want := publish(t, bed.Node(t, "many-1", &CutDialer{}), "H.many-1", 1, 1)
	got.want(t, want)
	want = append(want, publish(t, bed.Node(t, "many-2", &CutDialer{}), "H.many-2", 1, 1)...)
	got.want(t, want)
	admit(t, bed, "many-3") // joins while the subscription runs
	want = append(want, publish(t, bed.Node(t, "many-3", &CutDialer{}), "H.many-3", 1, 1)...)
	got.want(t, want)
}

func onlyOwn(t *testing.T, bed Fixture) {
	m := admit(t, bed, "own", "own-2")
	got := newInbox()
	subscribe(t, bed.Node(t, "own", &CutDialer{}), "own", "L.own", got.take)
	publish(t, m, "L.own-2", 1, 3)
	got.want(t, publish(t, m, "L.own", 1, 3))
}

func again(t *testing.T, bed Fixture) {
	m := admit(t, bed, "again")
	got, refusals := newInbox(), 0
	subscribe(t, bed.Node(t, "again", &CutDialer{}), "again", "L.again", func(ctx context.Context, in bus.Delivery) error {
		if strings.HasSuffix(in.ID, "-2") && refusals < 2 {
			refusals++
			return errors.New("not now")
		}
		return got.take(ctx, in)
	})
	got.want(t, publish(t, m, "L.again", 1, 4)) // those behind it have waited
	if refusals != 2 {
		t.Errorf("refused %d times", refusals)
	}
}

func duplicates(t *testing.T, bed Fixture) {
	m := admit(t, bed, "twice")
	got := newInbox()
	subscribe(t, bed.Node(t, "twice", &CutDialer{}), "twice", "L.twice", bus.Once(100, got.take))
	want := publish(t, m, "L.twice", 1, 3)
	publish(t, m, "L.twice", 1, 3)
	want = append(want, publish(t, m, "L.twice", 4, 4)...)
	got.want(t, want)
	if n := len(got.list); n != 4 {
		t.Errorf("%d messages were handled, 4 are different", n)
	}
}

func goesOn(t *testing.T, bed Fixture) {
	m := admit(t, bed, "goes-on")
	node := bed.Node(t, "goes-on", &CutDialer{})
	first, second := newInbox(), newInbox()
	stop := subscribe(t, node, "goes-on", "L.goes-on", first.take)
	first.want(t, publish(t, m, "L.goes-on", 1, 10))
	time.Sleep(time.Second) // for the last acknowledgement
	stop()
	node.Close()
	want := publish(t, m, "L.goes-on", 11, 20)
	subscribe(t, bed.Node(t, "goes-on", &CutDialer{}), "goes-on", "L.goes-on", second.take)
	second.want(t, want)
}

func notTaken(t *testing.T, bed Fixture) {
	m := admit(t, bed, "not-taken")
	node := bed.Node(t, "not-taken", &CutDialer{})
	seen := make(chan struct{}, 100)
	stop := subscribe(t, node, "not-taken", "L.not-taken", func(context.Context, bus.Delivery) error {
		seen <- struct{}{}
		return errors.New("dying")
	})
	want := publish(t, m, "L.not-taken", 1, 2)
	<-seen
	stop()
	node.Close()
	got := newInbox()
	subscribe(t, bed.Node(t, "not-taken", &CutDialer{}), "not-taken", "L.not-taken", got.take)
	got.want(t, want)
}

func catchesUp(t *testing.T, bed Fixture) {
	m := admit(t, bed, "cut")
	cable := &CutDialer{}
	node := bed.Node(t, "cut", cable)
	orders, reports := newInbox(), newInbox()
	subscribe(t, node, "cut", "L.cut", orders.take)
	subscribe(t, m, "cut-test", "R.cut", reports.take)
	want := publish(t, m, "L.cut", 1, 3)
	orders.want(t, want)
	cable.Cut()
	want = append(want, publish(t, m, "L.cut", 4, 50)...)
	sent := make(chan []string, 1)
	go func() { sent <- publish(t, node, "R.cut", 1, 50) }() // goes on trying
	away := 3 * time.Second
	if *Long {
		away = time.Minute
	}
	time.Sleep(away)
	if n := len(reports.all()); n > 0 {
		t.Errorf("%d messages came over a cable that is cut", n)
	}
	cable.Mend()
	orders.want(t, want)
	reports.want(t, <-sent)
}

func restarted(t *testing.T, bed Fixture) {
	admit(t, bed, "restart")
	node := bed.Node(t, "restart", &CutDialer{})
	orders := newInbox()
	subscribe(t, node, "restart", "L.restart", orders.take)
	want := publish(t, bed.Manager(t), "L.restart", 1, 50)
	half := make(chan struct{})
	sent := make(chan []string, 1)
	go func() {
		list := publish(t, node, "R.restart", 1, 100)
		close(half)
		sent <- append(list, publish(t, node, "R.restart", 101, 300)...)
	}()
	<-half
	bed.Restart(t)
	m := bed.Manager(t)
	reports := newInbox()
	subscribe(t, m, "restart-test", "R.restart", reports.take)
	want = append(want, publish(t, m, "L.restart", 51, 100)...)
	orders.want(t, want)
	reports.want(t, <-sent)
}

func removed(t *testing.T, bed Fixture) {
	m := admit(t, bed, "gone")
	publish(t, m, "L.gone", 1, 3)
	if err := m.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	admit(t, bed, "gone") // joins again, under a name that was used before
	got := newInbox()
	subscribe(t, bed.Node(t, "gone", &CutDialer{}), "gone", "L.gone", got.take)
	got.want(t, publish(t, m, "L.gone", 4, 5))
}
