// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane/mark/answers"
)

// maxInstances bounds the search for a free name.
const maxInstances = 4096

// build is one compilation of bpf/qdisc.bpf.c.
type build struct {
	id   string // tells one build from another; part of a pin's name
	spec func() (*ebpf.CollectionSpec, error)
}

// The builds have the same functions and layouts, and tables of their own sizes.
var (
	fullBuild  = sync.OnceValue(func() build { return build{digest(_QdiscBytes), loadQdisc} })
	smallBuild = sync.OnceValue(func() build { return build{digest(_SmallBytes), loadSmall} })
)

func digest(object []byte) string {
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:6])
}

func buildFor(small bool) build {
	if small {
		return smallBuild()
	}
	return fullBuild()
}

// object is one load of bpf/qdisc.bpf.c in the kernel.
type object struct {
	kind      string // "weir0": what tc shows
	build     build
	scheduler string
	carrier   string    // carrierName
	qdisc     link.Link // the registration of the kind
	classes   *ebpf.Map
	link      *ebpf.Map
	changes   *ebpf.Map
	control   *ebpf.Map     // .data.control: published
	groups    *ebpf.Map     // the wheels of each group's members
	holds     *ebpf.Map     // packets held for each queue with an interval
	delays    *ebpf.Map     // how long packets waited, of classes and queues
	owners    *ebpf.Map     // classes and queues of packets of local sockets, by cgroup
	sockets   *ebpf.Map     // how they are looked at
	marks     *ebpf.Program // writes CE into packets before they come to the qdisc
	state     *ebpf.Map     // .bss: everything the qdisc writes
	memory    *ebpf.Memory
	classesAt uint32 // offset of `classes` in state
	statsAt   uint32 // offset of `queue_stats` in state
	flowsAt   uint32 // offset of `flows` in state

	// What configs read last, and its numbers: memory that it uses again.
	written []qdiscWeirClassConfig
	numbers []uint32
}

// maps lists the pinned maps by the name of their pin.
func (o *object) maps() map[string]**ebpf.Map {
	return map[string]**ebpf.Map{
		"class_config": &o.classes, "link_config": &o.link, "changes": &o.changes,
		"control": &o.control, "state": &o.state, "groups": &o.groups, "holds": &o.holds,
		"owners": &o.owners, "sockets": &o.sockets, "delays": &o.delays,
	}
}

// load puts the object into the kernel under a free name. askers is the map of package answers;
// nil = one of its own.
func load(build build, scheduler string, carrier plan.Carrier, askers *ebpf.Map) (*object, error) {
	spec, err := build.spec()
	if err != nil {
		return nil, err
	}
	number, ok := schedulersOf(spec.Types)[scheduler]
	if !ok {
		return nil, fmt.Errorf("no scheduler %q in the qdisc", scheduler)
	}
	var keys [12]uint64
	if err := binary.Read(rand.Reader, binary.NativeEndian, &keys); err != nil {
		return nil, err
	}
	constants := map[string]any{
		qdiscVarScheduler: uint32(number),
		qdiscVarHashKeys:  keys,
		qdiscVarCarrier:   where(carrier),
	}
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set constant %s: %w", name, err)
		}
	}
	used := taken()
	for i := range maxInstances {
		kind := fmt.Sprintf("weir%d", i)
		if used[kind] {
			continue
		}
		o, err := loadAs(spec, kind, askers)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		unmap()
		if o != nil {
			o.build, o.scheduler, o.carrier = build, scheduler, carrierName(carrier)
		}
		return o, err
	}
	return nil, fmt.Errorf("all %d names of qdiscs (weir0, weir1, ...) are taken", maxInstances)
}

// kinds finds the names of Weir's qdiscs in what a map of struct_ops has.
var kinds = regexp.MustCompile(`weir[0-9]+`)

// taken returns the names of the qdiscs of other loads, in all network namespaces. The kernel says
// that a name is taken only when it has verified all programs, which takes seconds. What cannot be
// read is left to it.
func taken() map[string]bool {
	names := map[string]bool{}
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue
		}
		if m.Type() == ebpf.StructOpsMap {
			value, _ := m.LookupBytes(uint32(0))
			for _, name := range kinds.FindAll(value, -1) {
				names[string(name)] = true
			}
		}
		m.Close()
	}
	return names
}

// loadAs loads spec and registers it as kind; unix.EEXIST if that is taken.
func loadAs(spec *ebpf.CollectionSpec, kind string, askers *ebpf.Map) (*object, error) {
	spec = spec.Copy()
	if err := rename(spec.Maps[qdiscMapWeir], kind); err != nil {
		return nil, err
	}
	var shared ebpf.CollectionOptions
	if askers != nil {
		shared.MapReplacements = map[string]*ebpf.Map{answers.Map: askers}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, shared)
	if err != nil {
		var verifier *ebpf.VerifierError
		if errors.As(err, &verifier) {
			return nil, fmt.Errorf("kernel refuses the qdisc: %+v", verifier) //nolint:errorlint // only %+v prints the verifier's whole log
		}
		return nil, fmt.Errorf("load the qdisc: %w", err)
	}
	defer coll.Close()
	o := &object{kind: kind}
	o.qdisc, err = link.AttachStructOps(link.StructOpsOptions{Map: coll.Maps[qdiscMapWeir]})
	if err != nil {
		return nil, fmt.Errorf("register qdisc %s: %w", kind, err)
	}
	names := map[string]string{
		"class_config": qdiscMapClassConfig, "link_config": qdiscMapLinkConfig,
		"changes": qdiscMapChanges, "control": ".data.control", "state": ".bss", "groups": qdiscMapGroupTiers, "holds": qdiscMapHolds,
		"owners": qdiscMapOwners, "sockets": qdiscMapSockets, "delays": qdiscMapDelays,
	}
	for pin, m := range o.maps() {
		*m = coll.DetachMap(names[pin])
	}
	o.marks = coll.DetachProgram(qdiscProgWeirMarkCe)
	if err := o.open(spec); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// rename writes kind over the id in the struct_ops value. The spec holds the
// C struct as it was compiled; `id` is its last member.
func rename(m *ebpf.MapSpec, kind string) error {
	const idLen = 16
	value, ok := m.Contents[0].Value.([]byte)
	if !ok || len(value) < idLen || len(kind) >= idLen {
		return fmt.Errorf("qdisc object has an unexpected struct_ops value (%d bytes)", len(value))
	}
	value = append([]byte(nil), value...)
	id := value[len(value)-idLen:]
	clear(id)
	copy(id, kind)
	m.Contents = []ebpf.MapKV{{Key: m.Contents[0].Key, Value: value}}
	return nil
}

// open maps the state into memory. The offsets are those of spec's build.
func (o *object) open(spec *ebpf.CollectionSpec) (err error) {
	o.classesAt = spec.Variables[qdiscVarClasses].Offset
	o.statsAt = spec.Variables[qdiscVarQueueStats].Offset
	o.flowsAt = spec.Variables[qdiscVarFlows].Offset
	if o.memory, err = o.state.Memory(); err != nil {
		return fmt.Errorf("map the state of qdisc %s: %w", o.kind, err)
	}
	return nil
}

// The registration's pin carries what an adopting agent must know.
const (
	pinPrefix = "qdisc_"
	marksPin  = "mark_ce"
)

func (o *object) pinName() string {
	return pinPrefix + strings.Join([]string{o.kind, o.scheduler, o.carrier, o.build.id}, "_")
}

// carrierName tells carriers apart in the name of a pin.
func carrierName(c plan.Carrier) string {
	if c.Cilium {
		return fmt.Sprintf("%08xc", uint32(c.Mask))
	}
	return fmt.Sprintf("%08x", uint32(c.Mask))
}

// where returns what the qdisc is told of the carrier.
func where(c plan.Carrier) (in qdiscWeirCarrier) {
	in.More, in.Others, in.Classes, in.Shift, in.QueueShift = c.Where()
	return in
}

// pin keeps the object in dir, which must be empty, beyond the agent's life.
func (o *object) pin(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for pins: %w", err)
	}
	for name, m := range o.maps() {
		if err := (*m).Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pin map %s: %w", name, err)
		}
	}
	if err := o.marks.Pin(filepath.Join(dir, marksPin)); err != nil {
		return fmt.Errorf("pin the program that marks: %w", err)
	}
	if err := o.qdisc.Pin(filepath.Join(dir, o.pinName())); err != nil {
		return fmt.Errorf("pin qdisc %s: %w", o.kind, err)
	}
	return nil
}

// pinNames are the names of all pins.
func (o *object) pinNames() []string {
	return append(slices.Sorted(maps.Keys(o.maps())), marksPin, o.pinName())
}

// repin makes the pins in dir anew that another program has removed.
func (o *object) repin(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder for pins: %w", err)
	}
	again := func(name string, p interface {
		Unpin() error
		Pin(string) error
	}) error {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		// It believes that it is pinned.
		if err := errors.Join(p.Unpin(), p.Pin(path)); err != nil {
			return fmt.Errorf("pin %s again: %w", path, err)
		}
		return nil
	}
	err := errors.Join(again(o.pinName(), o.qdisc), again(marksPin, o.marks))
	for name, m := range o.maps() {
		err = errors.Join(err, again(name, *m))
	}
	return err
}

// adopt opens the objects pinned in dir. It returns nil without an error if nothing
// usable is there: no pins, half of them, or those of another build or carrier.
func adopt(build build, dir string, carrier plan.Carrier) (*object, error) {
	pins, err := filepath.Glob(filepath.Join(dir, pinPrefix+"*"))
	if err != nil || len(pins) != 1 {
		return nil, err
	}
	fields := strings.Split(strings.TrimPrefix(filepath.Base(pins[0]), pinPrefix), "_")
	if len(fields) != 4 || fields[2] != carrierName(carrier) || fields[3] != build.id {
		return nil, nil
	}
	spec, err := build.spec()
	if err != nil {
		return nil, err
	}
	o := &object{kind: fields[0], build: build, scheduler: fields[1], carrier: fields[2]}
	// The pin alone keeps the registration; this keeps it if the pin is removed.
	if o.qdisc, err = link.LoadPinnedLink(pins[0], nil); err != nil {
		return nil, fmt.Errorf("open the pinned qdisc %s: %w", pins[0], err)
	}
	for name, m := range o.maps() {
		if *m, err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			o.close()
			if errors.Is(err, os.ErrNotExist) {
				return nil, nil
			}
			return nil, fmt.Errorf("open pinned map %s: %w", filepath.Join(dir, name), err)
		}
	}
	if o.marks, err = ebpf.LoadPinnedProgram(filepath.Join(dir, marksPin), nil); err != nil {
		o.close()
		return nil, fmt.Errorf("open the pinned program %s: %w", filepath.Join(dir, marksPin), err)
	}
	if err := o.open(spec); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

// addGroup makes the calendars of a group's members, before the class is
// announced. They stay with the object: the number may be a group's again.
func (o *object) addGroup(id plan.ClassID) error {
	err := o.groups.Update(uint32(id), make([]byte, o.groups.ValueSize()), ebpf.UpdateNoExist)
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("make group %d of %s: %w", id, o.kind, err)
	}
	return nil
}

// addHold makes the place where packets of queue q of class id wait for their time,
// before the class is announced. It stays with the object, as a group's calendars do.
func (o *object) addHold(id plan.ClassID, q int) error {
	err := o.holds.Update(uint32(id)*policy.MaxQueues+uint32(q), qdiscHold{}, ebpf.UpdateNoExist)
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("pace queue %d of class %d of %s: %d queues of the link have a reservation already; take some away", q, id, o.kind, o.holds.MaxEntries())
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fmt.Errorf("pace queue %d of class %d of %s: %w", q, id, o.kind, err)
	}
	return nil
}

// hold is how many packets and bytes of the queue wait for their time.
func (o *object) hold(id plan.ClassID, q int) (packets, bytes uint64, err error) {
	var h qdiscHold
	err = o.holds.Lookup(uint32(id)*policy.MaxQueues+uint32(q), &h)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, 0, nil
	}
	return uint64(h.Qlen), uint64(h.Backlog), err
}

// close closes the handles; objects that are pinned or in use stay.
func (o *object) close() {
	if o.qdisc != nil {
		o.qdisc.Close()
	}
	if o.marks != nil {
		o.marks.Close()
	}
	for _, m := range o.maps() {
		if *m != nil {
			(*m).Close()
		}
	}
	o.memory = nil
}

// unmap lets the kernel have the memory of maps that no object refers to any more.
// cilium/ebpf unmaps it when the garbage collector finds it, and as long as it is
// mapped the kernel keeps the map: 15 MB for a link that is gone, for minutes in a
// process that does little.
func unmap() { runtime.GC() }

// class reads the state of one class. The kernel writes it meanwhile: each
// number is whole, but they may be of different packets. A time of waiting is
// either going on or among those that are over.
func (o *object) class(id plan.ClassID) (c qdiscWeirClass, err error) {
	for range 3 {
		before := c
		if err := readInto(o.memory, o.classesAt, int64(id), &c); err != nil {
			return c, fmt.Errorf("read class %d: %w", id, err)
		}
		if c.WaitSince == before.WaitSince && c.Waited == before.Waited && c.WaitedBytes == before.WaitedBytes {
			break
		}
	}
	return c, nil
}

// queue reads the counters and the state of queue q of class id, in the same way.
func (o *object) queue(id plan.ClassID, q int) (n qdiscWeirQueueStats, f qdiscWeirFlow, err error) {
	at := int64(id)*policy.MaxQueues + int64(q)
	if err := readInto(o.memory, o.statsAt, at, &n); err != nil {
		return n, f, fmt.Errorf("read queue %d of class %d: %w", q, id, err)
	}
	if err := readInto(o.memory, o.flowsAt, at, &f); err != nil {
		return n, f, fmt.Errorf("read queue %d of class %d: %w", q, id, err)
	}
	return n, f, nil
}

// readInto reads element i of the array at offset base.
func readInto[T any](memory *ebpf.Memory, base uint32, i int64, to *T) error {
	size := int64(unsafe.Sizeof(*to))
	_, err := memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(to)), size), int64(base)+i*size)
	return err
}

// announce puts entries into the ring of changes, in order, after their
// configuration was written. If the ring runs over, the kernel side takes all
// configuration anew, so nothing is lost by it.
func (o *object) announce(entries []uint32) error {
	var published uint64
	if err := o.control.Lookup(uint32(0), &published); err != nil {
		return fmt.Errorf("read the ring of changes: %w", err)
	}
	for i, entry := range entries {
		at := uint32((published + uint64(i)) % ringSize)
		if err := o.changes.Put(at, entry); err != nil {
			return fmt.Errorf("write the ring of changes: %w", err)
		}
	}
	if err := o.control.Put(uint32(0), published+uint64(len(entries))); err != nil {
		return fmt.Errorf("announce %d changes: %w", len(entries), err)
	}
	return nil
}
