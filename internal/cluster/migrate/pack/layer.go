// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// A layer of an image is an archive that an engine unpacks by itself, without a limit:
// it inflates packed layers, and fills holes with zeros. So this package reads layers
// once before the engine gets the end of them, and counts what they would make.

// Contents counts what layers put on a disk, all together.
type Contents struct {
	Limits StreamBounds
	Packed bool // layers may be packed by gzip or zstd, as registries have them

	mu      sync.Mutex
	raw     int64 // bytes of archives
	bytes   int64 // in files, holes included
	entries int64
}

// maxNoLayer is how many bytes an image's configuration may have, which is no layer.
const maxNoLayer = 4 << 20

// ErrNoLayer says that what comes as a layer cannot be read as one.
var ErrNoLayer = errors.New("a layer cannot be read")

// Count counts what a layer makes; one that fails counts for nothing. An image's
// configuration makes nothing.
func (c *Contents) Count(layer io.Reader) error {
	b := bufio.NewReaderSize(layer, 64<<10)
	in, err := c.inflate(b)
	if err != nil {
		return err
	}
	defer in.Close()
	own := &counted{Reader: in, of: c}
	if err = own.walk(); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.raw, c.bytes, c.entries = c.raw-own.n, c.bytes-own.made.bytes, c.entries-own.made.files
	}
	return err
}

// walk reads all of a layer.
func (r *counted) walk() error {
	t := tar.NewReader(r)
	for first := true; ; first = false {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			_, err := io.Copy(io.Discard, r) // what follows the end costs as much
			return err
		case err != nil && first && r.start == '{':
			r.most = maxNoLayer
			_, err := io.Copy(io.Discard, r)
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNoLayer, err)
		}
		if err := r.add(h.Size); err != nil {
			return err
		}
	}
}

// Made returns the counts: bytes on the disk, and files.
func (c *Contents) Made() (bytes, entries int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.raw, c.bytes), c.entries
}

// add counts an entry. What its header says may be of any size.
func (r *counted) add(bytes int64) error {
	c := r.of
	c.mu.Lock()
	defer c.mu.Unlock()
	one := amount{min(max(0, bytes), math.MaxInt64-c.bytes), 1}
	r.made = r.made.plus(one)
	c.bytes, c.entries = c.bytes+one.bytes, c.entries+one.files
	return c.over()
}

// over returns an error if the limits are exceeded. The lock is held.
func (c *Contents) over() error {
	switch {
	case c.bytes > c.Limits.Bytes || c.raw > c.Limits.Bytes:
		return fmt.Errorf("%w: layers that unpack to over %d bytes", ErrTooLarge, c.Limits.Bytes)
	case c.entries > c.Limits.Entries:
		return fmt.Errorf("%w: layers of over %d files", ErrTooLarge, c.Limits.Entries)
	}
	return nil
}

// counted is an unpacked layer.
type counted struct {
	io.Reader
	of    *Contents
	n     int64
	made  amount
	most  int64 // bytes; 0 = as the limits say
	start byte
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 && r.n == 0 {
		r.start = p[0]
	}
	r.n += int64(n)
	if r.most > 0 && r.n > r.most {
		return 0, fmt.Errorf("%w: over %d bytes that are no layer", ErrTooLarge, r.most)
	}
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.raw += int64(n)
	if over := r.of.over(); over != nil {
		return 0, over
	}
	return n, err
}

// ErrPacked says that a layer is packed where none is to be.
var ErrPacked = errors.New("a layer inside of the archive is packed; only plain ones are taken")

// inflate returns a layer as an engine unpacks it before it reads it.
func (c *Contents) inflate(b *bufio.Reader) (io.ReadCloser, error) {
	start, _ := b.Peek(6) // or less, if there is less
	format := formatOf(start)
	switch {
	case format == "":
		return io.NopCloser(b), nil
	case !c.Packed:
		return nil, fmt.Errorf("%w (%s)", ErrPacked, format)
	case format == "gzip":
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoLayer, err)
		}
		return z, nil
	case format == "zstd":
		z, err := decoder(b)
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return nil, fmt.Errorf("%w: it is packed by %s; use gzip or zstd", ErrNoLayer, format)
}

// formatOf says how a layer is packed, by its first bytes, as engines tell; "" if it is
// not.
func formatOf(start []byte) string {
	for _, known := range []struct{ format, start string }{
		{"gzip", "\x1f\x8b\x08"}, {"zstd", "\x28\xb5\x2f\xfd"}, {"bzip2", "BZh"}, {"xz", "\xfd7zXZ\x00"},
	} {
		if bytes.HasPrefix(start, []byte(known.start)) {
			return known.format
		}
	}
	const skippable = 0x184d2a50 // a frame that means nothing, before others
	if len(start) >= 4 && binary.LittleEndian.Uint32(start)&^0xf == skippable {
		return "zstd"
	}
	return ""
}

// Watch returns a layer as it is. It fails before its end if what it makes exceeds the
// limits, or cannot be counted: its last bytes are not handed on before all of it was.
func (c *Contents) Watch(layer io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	v := &watched{layer: layer, counter: w, verdict: make(chan error, 1)}
	go func() {
		err := c.Count(r)
		if err == nil {
			_, err = io.Copy(io.Discard, r) // what an unpacker ignores
		}
		r.CloseWithError(err)
		v.verdict <- err
	}()
	return v
}

// watchedPiece is how much of a layer is handed on at once, in bytes.
const watchedPiece = 32 << 10

type watched struct {
	layer   io.ReadCloser
	counter *io.PipeWriter
	verdict chan error // of all of the layer
	ready   []byte     // counted, and not the last
	next    []byte     // counted, may be the last
	err     error
}

func (v *watched) Read(p []byte) (int, error) {
	for len(v.ready) == 0 {
		if v.err != nil {
			return 0, v.err
		}
		v.advance()
	}
	n := copy(p, v.ready)
	v.ready = v.ready[n:]
	return n, nil
}

// advance reads a piece and has it counted.
func (v *watched) advance() {
	piece := make([]byte, watchedPiece)
	n, err := v.layer.Read(piece)
	if n > 0 {
		if _, refused := v.counter.Write(piece[:n]); refused != nil {
			v.err = refused
			return
		}
		v.ready, v.next = v.next, piece[:n]
	}
	switch {
	case errors.Is(err, io.EOF):
		_ = v.counter.Close()
		if refused := <-v.verdict; refused != nil {
			v.ready, v.err = nil, refused
			return
		}
		v.ready, v.err = append(v.ready, v.next...), io.EOF
	case err != nil:
		v.counter.CloseWithError(err)
		v.ready, v.err = nil, err
	}
}

// Close ends the count.
func (v *watched) Close() error {
	v.counter.CloseWithError(io.ErrClosedPipe)
	return v.layer.Close()
}
