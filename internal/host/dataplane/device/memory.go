// SPDX-License-Identifier: Apache-2.0

package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/host/dataplane"
)

// DefaultStateDir is where things are remembered if Options.StateDir is empty.
const DefaultStateDir = "/var/lib/weir"

// memory is the former root qdisc of one device, as the file holds it.
type memory struct {
	Device  string `json:"device"`
	Ifindex int    `json:"ifindex"`
	Kind    string `json:"kind"`
	Handle  uint32 `json:"handle"`
	Options []byte `json:"options,omitempty"`
	Lost    string `json:"lost,omitempty"` // what hung below it and cannot be put back
	Leaf    string `json:"leaf,omitempty"` // kind of the qdisc of each transmit queue, below mq
	Queues  int    `json:"queues,omitempty"`
}

func (m memory) qdisc() Qdisc {
	return Qdisc{Kind: m.Kind, Handle: m.Handle, Options: m.Options}
}

// Take asks whether Weir may put its own qdisc at the root of dev and, if so,
// remembers the present one. It changes nothing in the kernel. If Weir's own
// qdisc is there already, it does nothing. A qdisc that a user or another program set is
// refused with dataplane.ErrForeignQdisc unless opts.Force, or opts.Switch of one that may be Open
// vSwitch's, says otherwise, or Weir held the root until then: a manager of networks sets its qdisc
// anew with each change of its own, and weir.yaml names the device. A program that does nothing
// else wins after mostTakenBack times a minute. log is the link's: it names the device.
func (c *Conn) Take(dev Device, opts dataplane.Options, held bool, log *slog.Logger) error {
	root, err := c.Root(dev)
	if err != nil {
		return err
	}
	if root.Ours() {
		return nil
	}
	m := memory{Device: dev.Name, Ifindex: dev.Index, Kind: root.Kind, Handle: root.Handle, Options: root.Options}
	if m.Leaf, m.Queues, err = c.leaves(dev, root); err != nil {
		return err
	}
	held = held && !opts.Switch // rows of the switch name the port, not weir.yaml
	var before memory
	_ = Recall(memoryPath(opts, dev), &before) // what cannot be read is written anew
	if root.Foreign() {
		why, err := mayReplace(dev, root, opts, held, &c.takenBack)
		if err != nil {
			return err
		}
		if m.Lost, err = c.losses(dev, root); err != nil {
			return err
		}
		if !held || m.Lost != before.Lost { // else the agent says that the root was replaced, once a minute
			log.Warn("replacing a qdisc of another program", "why", why,
				"qdisc", root.String(), "cannot_be_restored", m.Lost)
		}
	}
	if reflect.DeepEqual(m, before) {
		return nil // the disk may be a flash card
	}
	return Remember(memoryPath(opts, dev), m)
}

// Former is the root qdisc that a device has without Weir. Below mq each transmit queue has a
// qdisc and a lock of its own.
type Former struct {
	Kind   string // e.g. mq; "" = not known
	Leaf   string // below mq, e.g. fq; "" = none
	Queues int    // transmit queues with a qdisc of their own, 0 = none
}

// String is the qdisc in words: "mq with fq".
func (f Former) String() string {
	if f.Leaf == "" {
		return f.Kind
	}
	return f.Kind + " with " + f.Leaf
}

// Former returns the root qdisc that dev has without Weir: what Take remembered if Weir's
// qdisc is there, the zero value if nothing is remembered, else the present one.
func (c *Conn) Former(dev Device, opts dataplane.Options) (Former, error) {
	root, err := c.Root(dev)
	if err != nil {
		return Former{}, err
	}
	if !root.Ours() {
		leaf, queues, err := c.leaves(dev, root)
		return Former{root.Kind, leaf, queues}, err
	}
	var m memory
	if err := Recall(memoryOf(opts, dev), &m); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Former{}, err
	}
	return Former{m.Kind, m.Leaf, m.Queues}, nil
}

// losses says in words what cannot be put back when root is replaced.
func (c *Conn) losses(dev Device, root Qdisc) (string, error) {
	b, err := c.below(dev, root)
	if err != nil {
		return "", Explain("list what hangs below the root qdisc of "+dev.Name, err)
	}
	lost := ""
	if !b.empty() {
		lost = b.String()
	}
	if root.Stab {
		if lost != "" {
			lost += ", "
		}
		lost += "its size table (stab)"
	}
	return lost, nil
}

// GiveBack takes Weir's root qdisc off dev and puts back what was there before.
// If something else than Weir's qdisc is there by now, it is left alone. Where
// nothing is remembered, the kernel's default comes back.
func (c *Conn) GiveBack(dev Device, opts dataplane.Options, log *slog.Logger) error {
	var former memory
	err := Recall(memoryOf(opts, dev), &former)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("cannot read which qdisc was there before, the kernel's default comes back",
			"err", err)
	}
	root, err := c.Root(dev)
	if err != nil {
		return err
	}
	if root.Ours() {
		if err := c.restore(dev, former, log); err != nil {
			return err
		}
	}
	return c.Forget(opts, "qdisc", dev)
}

// Forget removes the memory of dev under a prefix, by any name that it had, and of the devices that
// had its name before it and are gone.
func (c *Conn) Forget(opts dataplane.Options, prefix string, dev Device) error {
	entries, err := os.ReadDir(StateDir(opts))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list what is remembered of %s: %w", dev.Name, err)
	}
	for _, entry := range entries {
		name, index, ok := remembered(entry.Name(), prefix)
		if !ok || name != dev.Name && index != dev.Index {
			continue
		}
		if _, err := c.LookupIndex(index); index != dev.Index && !errors.Is(err, dataplane.ErrNoDevice) {
			continue
		}
		if err := os.Remove(filepath.Join(StateDir(opts), entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget what was on %s: %w", dev.Name, err)
		}
	}
	return nil
}

// remembered returns of which device a file of the state folder is.
func remembered(file, prefix string) (name string, index int, ok bool) {
	rest, its := strings.CutPrefix(file, prefix+"-")
	rest, whole := strings.CutSuffix(rest, ".json")
	dash := strings.LastIndexByte(rest, '-')
	if !its || !whole || dash < 0 {
		return "", 0, false
	}
	index, err := strconv.Atoi(rest[dash+1:])
	return rest[:dash], index, err == nil
}

// memoryOf returns the file that has the former qdisc of dev: by its name, or by one that it had
// before.
func memoryOf(opts dataplane.Options, dev Device) string {
	path := memoryPath(opts, dev)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path
	}
	entries, _ := os.ReadDir(StateDir(opts)) // then the kernel's default comes back
	for _, entry := range entries {
		if _, index, ok := remembered(entry.Name(), "qdisc"); ok && index == dev.Index {
			return filepath.Join(StateDir(opts), entry.Name())
		}
	}
	return path
}

// restore replaces Weir's qdisc by the former one, in one step if that is possible.
// If the kernel refuses it, its default is better than a scheduler without an agent.
func (c *Conn) restore(dev Device, former memory, log *slog.Logger) error {
	if !former.qdisc().Foreign() {
		return c.DeleteRoot(dev)
	}
	if former.Lost != "" {
		log.Warn("the former qdisc comes back without what hung below it",
			"qdisc", former.qdisc().String(), "lost", former.Lost)
	}
	if c.SetRoot(dev, former.qdisc()) == nil {
		return nil
	}
	// Its handle may be that of one of Weir's inner qdiscs. Then there is a moment
	// with the kernel's default in between.
	if err := c.DeleteRoot(dev); err != nil {
		return err
	}
	if err := c.SetRoot(dev, former.qdisc()); err != nil {
		log.Warn("the kernel refuses the former qdisc, its default comes back",
			"qdisc", former.qdisc().String(), "err", err)
	}
	return nil
}

// StateDir is the folder in which opts wants things remembered.
func StateDir(opts dataplane.Options) string {
	if opts.StateDir == "" {
		return DefaultStateDir
	}
	return opts.StateDir
}

// memoryPath has the index in it because a name can be taken over by another
// device. A device name holds no slash.
func memoryPath(opts dataplane.Options, dev Device) string {
	return filepath.Join(StateDir(opts), fmt.Sprintf("qdisc-%s-%d.json", dev.Name, dev.Index))
}

// Recall reads what Remember wrote; errors.Is(err, fs.ErrNotExist) if nothing was.
func Recall(path string, into any) error {
	content, err := safepath.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Remember replaces the file at path in one step: a crash leaves the old or
// the new content, never half of it. The folder is made if need be.
func Remember(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := safepath.Folder(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	return atomicfile.Write(path, append(content, '\n'), 0o600)
}
