// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// layerOf is one with a file of so many bytes.
func layerOf(t testing.TB, bytes int64, w io.Writer) {
	t.Helper()
	out := tar.NewWriter(w)
	if err := out.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: bytes}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(out, zeros{}, bytes); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func packedBy(t testing.TB, w io.WriteCloser, err error, fill func(io.Writer)) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	fill(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLayersAreCounted: what an engine would make of a layer is known before it has the
// layer's end.
func TestLayersAreCounted(t *testing.T) {
	gz := func(fill func(io.Writer)) []byte {
		var b bytes.Buffer
		packedBy(t, gzip.NewWriter(&b), nil, fill)
		return b.Bytes()
	}
	zst := func(fill func(io.Writer)) []byte {
		var b bytes.Buffer
		z, err := zstd.NewWriter(&b)
		packedBy(t, z, err, fill)
		return b.Bytes()
	}
	plain := func(size int64) []byte {
		var b bytes.Buffer
		layerOf(t, size, &b)
		return b.Bytes()
	}
	small := func(w io.Writer) { layerOf(t, 1<<20, w) }
	giga := func(w io.Writer) { _, _ = io.CopyN(w, zeros{}, 1<<30) }
	header := func(w io.Writer) { // of a file of 10 GiB, which follows
		_ = tar.NewWriter(w).WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: 10 << 30})
	}
	bomb := append(gz(header), bytes.Repeat(gz(giga), 10)...)
	t.Logf("a bomb of %d bytes", len(bomb))
	hole, err := io.ReadAll(func() io.Reader { r, _ := decoder(bytes.NewReader(sparse(t))); return r }())
	if err != nil {
		t.Fatal(err)
	}
	const limit = 4 << 20
	for name, c := range map[string]struct {
		layer  []byte
		packed bool // may be
		want   error
		made   int64
	}{
		"plain":                               {plain(1 << 20), false, nil, 1<<20 + 2560 - 1024},
		"plain, too large":                    {plain(limit + 1), true, ErrTooLarge, 0},
		"gzip":                                {gz(small), true, nil, 0},
		"zstd":                                {zst(small), true, nil, 0},
		"zstd after a frame that is skipped":  {append([]byte("\x50\x2a\x4d\x18\x01\x00\x00\x00x"), zst(small)...), true, nil, 0},
		"gzip where none is to be":            {gz(small), false, ErrPacked, 0},
		"zstd where none is to be":            {zst(small), false, ErrPacked, 0},
		"a skipped frame where none is to be": {append([]byte("\x5f\x2a\x4d\x18\x01\x00\x00\x00x"), zst(small)...), false, ErrPacked, 0},
		"10 GB in 10 MB of gzip":              {bomb, true, ErrTooLarge, 0},
		"10 GB in zstd":                       {append(zst(header), bytes.Repeat(zst(giga), 10)...), true, ErrTooLarge, 0},
		"1 GB of nothing after the end":       {gz(giga), true, ErrTooLarge, 0},
		"two streams of gzip in one":          {append(gz(small), gz(giga)...), true, ErrTooLarge, 0},
		"a file that is all hole":             {hole, true, ErrTooLarge, 0},
		"a configuration":                     {[]byte(`{"rootfs":{}}`), true, nil, 0},
		"a configuration of 5 MB":             {[]byte(`{"x":"` + strings.Repeat("x", 5<<20) + `"}`), true, ErrTooLarge, 0},
		"nothing known":                       {bytes.Repeat([]byte("x"), 2048), true, tar.ErrHeader, 0},
		"nothing":                             {nil, true, nil, 0},
		"xz":                                  {[]byte("\xfd7zXZ\x00" + strings.Repeat("x", 600)), true, errAny, 0},
		"bzip2":                               {[]byte("BZh91AY&SY" + strings.Repeat("x", 600)), true, errAny, 0},
	} {
		t.Run(name, func(t *testing.T) {
			contents := &Contents{Limits: StreamBounds{Bytes: limit, Entries: 10}, Packed: c.packed}
			err := contents.Count(bytes.NewReader(c.layer))
			if !errors.Is(err, c.want) && (!errors.Is(c.want, errAny) || err == nil) {
				t.Errorf("%d bytes: %v, want %v", len(c.layer), err, c.want)
			}
			if made, _ := contents.Made(); c.made > 0 && (made < c.made || made > c.made+2048) {
				t.Errorf("%d bytes made, want %d", made, c.made)
			}
			watching := &Contents{Limits: contents.Limits, Packed: c.packed}
			r := watching.Watch(io.NopCloser(bytes.NewReader(c.layer)))
			got, err := io.ReadAll(r)
			if !errors.Is(err, c.want) && (!errors.Is(c.want, errAny) || err == nil) {
				t.Errorf("watched: %v, want %v", err, c.want)
			}
			if whole := bytes.Equal(got, c.layer); whole != (c.want == nil) && len(c.layer) > 0 {
				t.Errorf("watched: %d of %d bytes were handed on", len(got), len(c.layer))
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

var errAny = errors.New("any error")

// TestLayersTogether: many layers have one limit.
func TestLayersTogether(t *testing.T) {
	contents := &Contents{Limits: StreamBounds{Bytes: 10 << 20, Entries: 100}}
	var b bytes.Buffer
	layerOf(t, 4<<20, &b)
	for i, want := range []error{nil, nil, ErrTooLarge} {
		if err := contents.Count(bytes.NewReader(b.Bytes())); !errors.Is(err, want) {
			t.Errorf("layer %d: %v, want %v", i, err, want)
		}
	}
	files := &Contents{Limits: StreamBounds{Bytes: 10 << 20, Entries: 1}}
	for i, want := range []error{nil, ErrTooLarge} {
		b.Reset()
		layerOf(t, 0, &b)
		if err := files.Count(&b); !errors.Is(err, want) {
			t.Errorf("file %d: %v, want %v", i, err, want)
		}
	}
}
