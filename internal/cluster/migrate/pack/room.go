// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoRoom says that a stream would take room that is kept free on the disk.
var ErrNoRoom = errors.New("the disk has no room for it beyond the reserve; free some there")

const (
	// reserve is the room that is kept free of a file system, in bytes, or a twentieth of
	// a smaller one; of the files that it can have, always a twentieth.
	reserve      = 1 << 30
	reservedPart = 20

	// portion is the room that a stream claims at once: few looks at the disk, and little
	// that others cannot have meanwhile.
	portionBytes = 1 << 20
	portionFiles = 256

	// entryBytes is the room that a file of no size takes, in bytes.
	entryBytes = 4 << 10
)

// amount is room on a disk.
type amount struct{ bytes, files int64 }

func (a amount) plus(b amount) amount { return amount{a.bytes + b.bytes, a.files + b.files} }
func (a amount) less(b amount) amount { return amount{a.bytes - b.bytes, a.files - b.files} }
func (a amount) holds(b amount) bool  { return b.bytes <= a.bytes && b.files <= a.files }

// disk is a file system that streams arrive on. Each looks at its free space before it
// writes, and many would all find the same space; so a stream claims the space that it
// has found, until that is written and no longer free.
type disk struct {
	mu      sync.Mutex
	claimed amount
}

// disks has the disks that a stream has arrived on, by device.
var disks sync.Map

func diskOf(folder string) (*disk, error) {
	var st unix.Stat_t
	if err := unix.Stat(folder, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: folder, Err: err}
	}
	d, _ := disks.LoadOrStore(st.Dev, &disk{})
	return d.(*disk), nil
}

// free returns the room of a folder's file system that no stream has claimed, but for
// the reserve. The lock is held.
func (d *disk) free(folder string) (amount, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return amount{}, &fs.PathError{Op: "statfs", Path: folder, Err: err}
	}
	is := amount{int64(st.Bavail)*st.Bsize - min(reserve, int64(st.Blocks)*st.Bsize/reservedPart), math.MaxInt64 >> 1}
	if st.Files > 0 { // else it counts none
		is.files = int64(st.Ffree) - int64(st.Files/reservedPart)
	}
	return is.less(d.claimed), nil
}

// claim is the room for what one stream is about to write.
type claim struct {
	disk   *disk
	folder string
	held   []amount // what was claimed last, not yet written in part
	left   amount   // of the last
}

// take notes a write that is about to come. Room that was claimed before the last two
// portions is written by then, also where another program writes it.
func (c *claim) take(want amount) error {
	if c.left.holds(want) {
		c.left = c.left.less(want)
		return nil
	}
	more := amount{max(want.bytes, portionBytes), max(want.files, portionFiles)}
	if err := c.hold(more, want); err != nil {
		return err
	}
	if len(c.held) > 2 {
		c.release(c.held[0])
		c.held = c.held[1:]
	}
	return nil
}

// hold claims more, or only want if the disk has no room for more.
func (c *claim) hold(more, want amount) error {
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	free, err := c.disk.free(c.folder)
	if err != nil {
		return err
	}
	if !free.holds(more) {
		more = want
	}
	if !free.holds(more) {
		return fmt.Errorf("%w (%s)", ErrNoRoom, c.folder)
	}
	c.disk.claimed = c.disk.claimed.plus(more)
	c.held, c.left = append(c.held, more), more.less(want)
	return nil
}

func (c *claim) release(a amount) {
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	c.disk.claimed = c.disk.claimed.less(a)
}

// end gives back what was claimed. A claim of no disk claims nothing.
func (c *claim) end() {
	if c == nil {
		return
	}
	for _, a := range c.held {
		c.release(a)
	}
	c.held, c.left = nil, amount{}
}

// claiming is a stream that claims room for the bytes that are read from it.
type claiming struct {
	io.Reader
	claim *claim
}

func (c claiming) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.claim != nil && n > 0 {
		if none := c.claim.take(amount{bytes: int64(n)}); none != nil {
			return 0, none
		}
	}
	return n, err
}

// Room returns how much a folder's file system has room for, at most so many bytes: half
// of the files that it can still have, and its free space but for a reserve. Streams that
// are read within these limits share the room with all others in this process.
func Room(folder string, bytes int64) (StreamBounds, error) {
	d, err := diskOf(folder)
	if err != nil {
		return StreamBounds{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	free, err := d.free(folder)
	if err != nil {
		return StreamBounds{}, err
	}
	return StreamBounds{Bytes: max(0, min(bytes, free.bytes)), Entries: max(0, free.files/2), claim: &claim{disk: d, folder: folder}}, nil
}

// Claim keeps room on a folder's file system for what another program is about to write
// there, until the answer is called.
func Claim(folder string, bytes int64) (end func(), err error) {
	d, err := diskOf(folder)
	if err != nil {
		return nil, err
	}
	c := &claim{disk: d, folder: folder}
	if err := c.hold(amount{bytes: bytes}, amount{bytes: bytes}); err != nil {
		return nil, err
	}
	return c.end, nil
}

const (
	// fastest is how fast a disk is filled at most, in bytes a second.
	fastest = 4 << 30
	// A watch looks at the disk again before it could be full at that speed, but not more often
	// than that, and for what files take, which are made more slowly, at least so often.
	oftenest, seldomest = time.Millisecond, 100 * time.Millisecond
)

// Watch returns a context that ends, with ErrNoRoom as its cause, when a folder's file system
// has no room beyond the reserve: for a program whose writes Weir does not count.
func Watch(ctx context.Context, folder string) (watched context.Context, end func(), err error) {
	d, err := diskOf(folder)
	if err != nil {
		return nil, nil, err
	}
	room := func() (free amount, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if free, err = d.free(folder); err == nil && !free.holds(amount{1, 1}) {
			err = fmt.Errorf("%w (%s)", ErrNoRoom, folder)
		}
		return free, err
	}
	free, err := room()
	if err != nil {
		return nil, nil, err
	}
	watched, cancel := context.WithCancelCause(ctx)
	go func() {
		for err == nil {
			soon := time.Duration(float64(free.bytes) / fastest * float64(time.Second))
			select {
			case <-watched.Done():
				return
			case <-time.After(min(max(soon, oftenest), seldomest)):
			}
			free, err = room()
		}
		cancel(err)
	}()
	return watched, func() { cancel(nil) }, nil
}
