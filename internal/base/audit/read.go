// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"time"
)

// Query selects entries.
type Query struct {
	Since  time.Time // of the first; zero = all
	Object string    // "" = any
	Limit  int       // the newest so many; 0 = MaxEntries
}

// Bounds of one call of Read.
const (
	MaxEntries = 5000    // that it returns
	maxAnswer  = 8 << 20 // bytes of their lines
	blockSize  = 256 << 10
)

// Read returns entries, the oldest first: the newest ones that the bounds have room for. Lines
// that cannot be read are left out. It ends early, with an error, when ctx does.
func (l *Log) Read(ctx context.Context, q Query) ([]Entry, error) {
	if l == nil {
		return nil, nil
	}
	if q.Limit <= 0 || q.Limit > MaxEntries {
		q.Limit = MaxEntries
	}
	files, err := l.files()
	if err != nil {
		return nil, err
	}
	s := newSearch(q)
	for _, f := range files { // the newest first
		info, stat := f.Stat()
		if err = errors.Join(err, stat); err == nil && !s.full() && !info.ModTime().Before(q.Since) {
			err = backwards(ctx, f, info.Size(), s.line)
		}
		err = errors.Join(err, f.Close())
	}
	slices.Reverse(s.found)
	return s.found, err
}

// files opens all there are, in one moment between two rotations.
func (l *Log) files() ([]*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var files []*os.File
	for n := range keepOld + 1 {
		f, err := os.OpenFile(l.older(n), os.O_RDONLY|own, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// search collects the entries that a query selects.
type search struct {
	Query
	object []byte // as a line has it; nil = any
	found  []Entry
	bytes  int
}

func newSearch(q Query) *search {
	s := &search{Query: q}
	if q.Object != "" {
		s.object = bytes.TrimSpace(encode(q.Object))
	}
	return s
}

// full reports whether no more entries are wanted.
func (s *search) full() bool { return len(s.found) >= s.Limit || s.bytes >= maxAnswer }

// line takes a line, and reports whether more are wanted. Most lines are not decoded: that
// takes ten times as long as to see that they are about another object.
func (s *search) line(text []byte) (more bool) {
	if s.object != nil && !bytes.Contains(text, s.object) {
		return true
	}
	var e Entry
	if json.Unmarshal(text, &e) == nil && !e.Time.Before(s.Since) && (s.Object == "" || e.Object == s.Object) {
		s.found = append(s.found, e)
		s.bytes += len(text)
	}
	return !s.full()
}

// backwards calls line with the lines of a file, the last one first, until it wants no more.
// What is longer than a line of ours is left out.
func backwards(ctx context.Context, f io.ReaderAt, size int64, line func([]byte) (more bool)) error {
	buf := make([]byte, 0, blockSize+2*MaxLine)
	var rest []byte // the end of a line whose beginning is in a block before
	long := false   // what is left of it is no line of ours
	for end := size; end > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin := max(0, end-blockSize)
		buf = append(buf[:end-begin], rest...)
		if _, err := f.ReadAt(buf[:end-begin], begin); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		text := buf
		for {
			i := bytes.LastIndexByte(text, '\n')
			if i < 0 && begin > 0 {
				break
			}
			if one := text[i+1:]; !long && len(one) > 0 && len(one) <= 2*MaxLine && !line(one) {
				return nil
			}
			if long = false; i < 0 {
				return nil
			}
			text = text[:i]
		}
		if long = long || len(text) > 2*MaxLine; long {
			text = nil
		}
		rest, end = slices.Clone(text), begin
	}
	return nil
}
