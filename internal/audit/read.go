// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
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

// MaxEntries bounds the number of entries that one call of Read returns.
const MaxEntries = 5000

// Read returns entries, the oldest first. Lines that cannot be read are left out.
func (l *Log) Read(q Query) ([]Entry, error) {
	if l == nil {
		return nil, nil
	}
	if q.Limit <= 0 || q.Limit > MaxEntries {
		q.Limit = MaxEntries
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	files, err := l.files()
	if err != nil {
		return nil, err
	}
	var found []Entry
	for _, f := range files { // the newest first
		info, err := f.Stat()
		if err == nil && len(found) < q.Limit && !info.ModTime().Before(q.Since) {
			var older []Entry
			older, err = scan(f, q, q.Limit-len(found))
			found = append(older, found...)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// files opens all there are, in one moment between two rotations.
func (l *Log) files() ([]*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var files []*os.File
	for n := range keepOld + 1 {
		f, err := os.Open(l.older(n))
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

// scan reads the last entries of a file that fit, at most limit.
func scan(f *os.File, q Query, limit int) ([]Entry, error) {
	var list []Entry
	r := bufio.NewReaderSize(f, 2*MaxLine)
	for {
		line, err := r.ReadSlice('\n')
		long := false
		for errors.Is(err, bufio.ErrBufferFull) { // no line of ours; what a crash left
			long = true
			_, err = r.ReadSlice('\n')
		}
		var e Entry
		if !long && json.Unmarshal(line, &e) == nil && !e.Time.Before(q.Since) && (q.Object == "" || e.Object == q.Object) {
			list = append(list, e)
		}
		if len(list) >= 2*limit {
			list = slices.Clone(list[len(list)-limit:])
		}
		if errors.Is(err, io.EOF) {
			return list[max(0, len(list)-limit):], nil
		}
		if err != nil {
			return nil, err
		}
	}
}
