// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"weir/internal/core/bound"
)

// ErrCutOff says that a stream ended too early, ErrTooLarge that it holds more than its
// receiver allows.
var (
	ErrCutOff   = errors.New("the stream was cut off")
	ErrTooLarge = errors.New("the stream holds more than was announced")
)

// StreamBounds bound what a stream may make of a folder. Its sender may be hostile.
type StreamBounds struct {
	Bytes   int64 // in all files together, holes included
	Entries int64 // files of any type
	// Accept refuses entries that have no place in the folder; nil = all have.
	Accept func(*tar.Header) error

	claim *claim // on the disk that Room has looked at; nil = none
}

// window is how far back in a stream the decoder has to remember, in bytes: Write needs
// 4 MiB. A stream that claims to need more is refused before any memory is taken.
const window = bound.Window

// trailer bounds how much may come after the last entry, in bytes: two empty blocks.
const trailer = 64 << 10

// decoder unpacks a stream with bounded memory.
func decoder(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(window))
}

// Read unpacks a stream of Write's into a folder, which exists. Files that are there
// under the same names are replaced. Whatever the stream says, nothing is made, changed
// or opened outside of the folder, nor more than the limits allow.
func Read(r io.Reader, folder string, limits StreamBounds) (StreamSize, error) {
	packed := &source{r: r}
	z, err := decoder(packed)
	if err != nil {
		return StreamSize{}, err
	}
	defer z.Close()
	defer limits.claim.end()
	raw := &source{r: z}
	err = unpack(raw, folder, limits)
	return StreamSize{Packed: packed.n.Load(), Raw: raw.n.Load()}, err
}

// Unpack returns a stream's archive within the limits of bytes, for an engine that
// reads archives itself. It ends with an error if the stream was cut off.
func Unpack(r io.Reader, limits StreamBounds) (content io.ReadCloser, size func() StreamSize, err error) {
	packed := &source{r: r}
	z, err := decoder(packed)
	if err != nil {
		return nil, nil, err
	}
	raw := &source{r: z}
	return archive{claiming{&bounded{raw, limits.Bytes}, limits.claim}, z}, func() StreamSize { return StreamSize{Packed: packed.n.Load(), Raw: raw.n.Load()} }, nil
}

// archive is an archive that is unpacked as it is read.
type archive struct {
	claiming
	decoder *zstd.Decoder
}

// Close gives back what was claimed of the disk and is not written.
func (a archive) Close() error {
	a.decoder.Close()
	a.claim.end()
	return nil
}

// bounded is an archive of at most so many bytes. It fails at the end of a stream in
// which nothing was: no archive is empty.
type bounded struct {
	*source
	limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	left := b.limit - b.n.Load()
	if left <= 0 {
		left = 1 // to tell the end from more
	}
	n, err := b.source.Read(p[:min(int64(len(p)), left)])
	switch total := b.n.Load(); {
	case total > b.limit:
		return 0, fmt.Errorf("%w: an archive of over %d bytes", ErrTooLarge, b.limit)
	case errors.Is(err, io.EOF) && total == 0:
		err = ErrCutOff
	}
	return n, err
}

// source counts what was read of r, which the decoder does beside us.
type source struct {
	r io.Reader
	n atomic.Int64
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n.Add(int64(n))
	return n, err
}

func unpack(raw io.Reader, folder string, limits StreamBounds) error {
	root, err := openRoot(folder)
	if err != nil {
		return err
	}
	defer root.close()
	u := unpacker{root: root, limits: limits}
	t := tar.NewReader(raw)
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return ErrCutOff
		case err != nil:
			return err
		case h.Name == end:
			if err := u.finish(); err != nil {
				return err
			}
			// The frame's end, with its checksum.
			if n, err := io.Copy(io.Discard, io.LimitReader(raw, trailer)); err != nil || n < trailer {
				return err
			}
			return fmt.Errorf("%w: bytes after its end", ErrTooLarge)
		}
		if err := u.take(h, t); err != nil {
			return fmt.Errorf("unpack %.200s: %w", h.Name, err)
		}
	}
}
