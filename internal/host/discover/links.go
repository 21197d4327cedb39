// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/host/discover/notice"
	"weir/internal/host/dump"
)

// Links follows the network devices of one network namespace, the host's. All
// sources share one, so that a storm of link messages is read and sifted once.
//
// A device's other end is known without entering another namespace: the kernel
// gives every namespace that it mentions to us a small number (nsid), a veth
// says in which nsid its peer lives, and RTM_GETNSID says which nsid a namespace
// file stands for. So "the devices of a container" are the veths and netkit pairs
// whose nsid is that of /proc/PID/ns/net.
type Links struct {
	log     *slog.Logger
	notices *notice.Reader  // link and nsid messages
	ask     *netlink.Handle // requests
	self    fileID          // the followed namespace itself

	mu         sync.Mutex
	links      map[int]link
	namespaces map[int]*namespace // by nsid
	byNsid     map[int][]Device   // index of links, nil when out of date
	byName     map[string]int     // the same, by names and alternative names
	watchers   map[chan struct{}]bool
}

// link is a network device as far as watchers compare it. A change of its carrier or counters,
// which a container may bring about without end, wakes none.
type link struct {
	Index       int
	Name        string
	Other       string // alternative names, a blank between two
	Kind        string // "veth", "netkit", "tuntap", "bridge", "device" (hardware), ...
	Peer        int    // index of the other end, in its namespace
	Nsid        int    // the other end's namespace, noNsid if it is ours
	Up          bool   // the administrator's wish
	Master, MTU int    // the bridge, bond or team that it is a port of, 0 = none; bytes
	XDP         uint32 // id of the program, 0 = none
}

const noNsid = -1

// namespace is another network namespace, alive for as long as its nsid stands
// for it.
type namespace struct {
	nsid int
	gone bool // guarded by Links.mu; the kernel has given the nsid back
}

// fileID tells namespaces apart: each is a file of the kernel's nsfs.
type fileID struct{ dev, inode uint64 }

// errOwnNamespace is returned for a path that leads to the host's own namespace.
var errOwnNamespace = errors.New("is the host's own network namespace")

// NewLinks reads the devices of a network namespace, given by path; "" is the
// namespace of the calling process. Run keeps it up to date. It needs
// CAP_SYS_ADMIN if a path is given.
func NewLinks(log *slog.Logger, path string) (*Links, error) {
	given := path
	if path == "" {
		path = "/proc/thread-self/ns/net"
	}
	self, err := identify(path)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", path, err)
	}
	at := netns.None()
	if given != "" {
		if at, err = netns.GetFromPath(path); err != nil {
			return nil, fmt.Errorf("network namespace %s: %w", path, err)
		}
		defer at.Close()
	}
	l := &Links{log: log, self: self, watchers: map[chan struct{}]bool{}}
	// Subscribed before the first dump, so that no change falls in between.
	if l.notices, err = notice.Subscribe(at); err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", path, err)
	}
	if l.ask, err = netlink.NewHandleAt(at, unix.NETLINK_ROUTE); err != nil {
		l.notices.Close()
		return nil, fmt.Errorf("network namespace %s: open a netlink socket: %w", path, err)
	}
	if err := l.resync(); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close closes the sockets. Call it after Run and the sources have ended.
func (l *Links) Close() {
	l.notices.Close()
	l.ask.Close()
}

// Run follows the devices until ctx ends. It can be called once.
func (l *Links) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.notices.End)
	defer stop()
	runtime.LockOSThread() // whose CPU time counts
	defer runtime.UnlockOSThread()
	var said time.Time
	for {
		batch, err := l.notices.Read()
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		begin := notice.Spent()
		if batch.Lost {
			if time.Since(said) > time.Minute { // changes without end may go on
				said = time.Now()
				l.log.Warn("link messages were lost, reading all devices anew")
			}
			if err := l.resync(); err != nil {
				return err
			}
		} else {
			l.apply(batch)
		}
		l.notices.Rest(notice.Spent() - begin)
	}
}

// resync reads all devices. Every known namespace is forgotten, since messages
// that said it was gone may have been lost.
func (l *Links) resync() error {
	list, err := dump.Whole(l.ask.LinkList)
	if err != nil {
		return fmt.Errorf("list network devices: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ns := range l.namespaces {
		ns.gone = true
	}
	l.namespaces = map[int]*namespace{}
	l.links = make(map[int]link, len(list))
	for _, entry := range list {
		l.links[entry.Attrs().Index] = newLink(entry)
	}
	l.changed()
	return nil
}

func newLink(entry netlink.Link) link {
	a := entry.Attrs()
	l := link{Index: a.Index, Name: a.Name, Other: strings.Join(a.AltNames, " "), Kind: entry.Type(), Peer: a.ParentIndex, Nsid: a.NetNsID,
		Up: a.Flags&net.FlagUp != 0, Master: a.MasterIndex, MTU: a.MTU}
	if a.Xdp != nil {
		l.XDP = a.Xdp.ProgId
	}
	return l
}

// apply takes in what was read and wakes the watchers at most once. Devices are asked for anew
// after the others were taken in: what is asked now is no older than what any notice says.
func (l *Links) apply(batch *notice.Batch) {
	changed := false
	for index, last := range batch.Links {
		changed = l.applyLink(index, last) || changed
	}
	for _, nsid := range batch.Namespaces {
		changed = l.applyGone(nsid) || changed
	}
	for _, index := range batch.Again {
		changed = l.reread(index) || changed
	}
	if changed {
		l.mu.Lock()
		l.changed()
		l.mu.Unlock()
	}
}

func (l *Links) applyLink(index int, last notice.Link) bool {
	if last.Kind == unix.RTM_DELLINK {
		return l.set(index, nil)
	}
	entry, err := netlink.LinkDeserialize(nil, last.Body)
	if err != nil {
		l.log.Warn("a link message was not understood", "err", err)
		return false
	}
	return l.set(index, entry)
}

// set notes what a device is now, nil = gone, and reports whether that is another thing than
// before.
func (l *Links) set(index int, entry netlink.Link) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.links[index]
	if entry == nil {
		delete(l.links, index)
		return known
	}
	now := newLink(entry)
	l.links[index] = now
	return !known || before != now
}

// reread asks for a device anew.
func (l *Links) reread(index int) bool {
	entry, err := l.ask.LinkByIndex(index)
	if err != nil { // it is gone
		entry = nil
	}
	return l.set(index, entry)
}

// applyGone handles the end of a namespace's number. The kernel may give the
// number to another namespace at once, and a device announced for that one may
// overtake this message; so the devices concerned are asked for anew instead of
// being taken as peerless.
func (l *Links) applyGone(nsid int) bool {
	l.mu.Lock()
	var stale []int
	for index, entry := range l.links {
		if entry.Nsid == nsid {
			stale = append(stale, index)
		}
	}
	ns := l.namespaces[nsid]
	if ns != nil {
		ns.gone = true
		delete(l.namespaces, nsid)
	}
	l.mu.Unlock()
	for _, index := range stale {
		l.reread(index)
	}
	return ns != nil || len(stale) > 0
}

// changed wakes the watchers. Called with mu held.
func (l *Links) changed() {
	l.byNsid, l.byName = nil, nil
	for w := range l.watchers {
		select {
		case w <- struct{}{}:
		default: // it has not looked since the last change
		}
	}
}

// Watch returns a channel that gets a value after devices have changed, and a
// function that ends it.
func (l *Links) Watch() (changes <-chan struct{}, stop func()) {
	w := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watchers[w] = true
	return w, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watchers, w)
	}
}

// Named returns the name of the device with an index, and whether there is one.
func (l *Links) Named(ifindex int) (name string, there bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, there := l.links[ifindex]
	return found.Name, there
}

// IndexOf returns the index of the device that has a name or alternative name, 0 if none has.
func (l *Links) IndexOf(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names()[name]
}

// Names returns the names and alternative names of all devices, sorted.
func (l *Links) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.names()))
}

// names returns the indices of all devices by name. Called with mu held.
func (l *Links) names() map[string]int {
	if l.byName == nil {
		l.byName = make(map[string]int, len(l.links))
		for index, entry := range l.links {
			l.byName[entry.Name] = index
			for _, other := range strings.Fields(entry.Other) {
				l.byName[other] = index
			}
		}
	}
	return l.byName
}

// list returns all devices, ordered by index.
func (l *Links) list() []link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.links), func(a, b link) int { return a.Index - b.Index })
}

// resolve says which namespace a file (/proc/PID/ns/net, /run/netns/NAME)
// stands for. It is nil as long as the host has had nothing to do with it, so
// that no device of the host can have its other end there.
func (l *Links) resolve(path string) (*namespace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if id, err := identifyFile(f); err != nil || id == l.self {
		return nil, errors.Join(err, ownNamespace(id == l.self))
	}
	nsid, err := l.ask.GetNetNsIdByFd(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("%s is no network namespace: %w", path, err)
	}
	if nsid == noNsid {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ns := l.namespaces[nsid]
	if ns == nil {
		ns = &namespace{nsid: nsid}
		l.namespaces[nsid] = ns
	}
	return ns, nil
}

func ownNamespace(own bool) error {
	if own {
		return errOwnNamespace
	}
	return nil
}

// alive says whether ns still exists and is worth keeping.
func (l *Links) alive(ns *namespace) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return ns != nil && !ns.gone
}

// paired reports whether devices of a kind are pairs whose ends may be in two namespaces.
func paired(kind string) bool { return kind == "veth" || kind == "netkit" }

// devices lists the host's ends of the veth and netkit pairs that reach into ns.
func (l *Links) devices(ns *namespace) []Device {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ns == nil || ns.gone {
		return nil
	}
	return slices.Clone(l.index()[ns.nsid])
}

// unclaimed lists the nsids in which a pair of the host ends, without those of
// the given namespaces.
func (l *Links) unclaimed(claimed map[*namespace]bool) map[int]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := map[int]bool{}
	for nsid := range l.index() {
		rest[nsid] = true
	}
	for ns := range claimed {
		if !ns.gone {
			delete(rest, ns.nsid)
		}
	}
	return rest
}

// index groups the pairs by the namespace of their other end. Called with mu held.
func (l *Links) index() map[int][]Device {
	if l.byNsid != nil {
		return l.byNsid
	}
	l.byNsid = map[int][]Device{}
	for _, entry := range l.links {
		if paired(entry.Kind) && entry.Nsid != noNsid {
			l.byNsid[entry.Nsid] = append(l.byNsid[entry.Nsid],
				Device{Name: entry.Name, Ifindex: entry.Index, PeerIfindex: entry.Peer})
		}
	}
	for _, devices := range l.byNsid {
		slices.SortFunc(devices, func(a, b Device) int { return a.Ifindex - b.Ifindex })
	}
	return l.byNsid
}

func identify(path string) (fileID, error) {
	f, err := os.Open(path)
	if err != nil {
		return fileID{}, err
	}
	defer f.Close()
	return identifyFile(f)
}

func identifyFile(f *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileID{}, err
	}
	return fileID{st.Dev, st.Ino}, nil
}
