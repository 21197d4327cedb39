// SPDX-License-Identifier: Apache-2.0

// Package statefile keeps values as files of JSON in a folder of state. A file is whole and on
// the disk when Write or Put returns, whatever happens meanwhile.
//
//	files, all, err := statefile.Open[Record]("/var/lib/weir/moves", log)
//	err = files.Put("m-1", record) // /var/lib/weir/moves/m-1.json
//
// Of a folder with many values, one that is damaged does not keep the others from being used:
// it is moved aside (m-1.json.damaged) with a line in the log, and Damaged says so from then on,
// in later processes too, until a person has removed it.
//
// What it does not do: lock, or hold the values in memory.
package statefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
)

// Read reads a file into v. One that is not there leaves v as it is.
func Read(file string, v any) error {
	text, err := safepath.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Write replaces a file.
func Write(file string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, append(text, '\n'), 0o600)
}

// Folder has a file for each key. Nothing else may end in .json there.
type Folder[T any] struct {
	dir     string
	damaged map[string]bool
}

const (
	suffix = ".json"
	aside  = ".damaged" // behind the suffix
)

// Open makes the folder if it is not there, and reads all of it.
func Open[T any](dir string, log *slog.Logger) (f Folder[T], all map[string]*T, err error) {
	f, all = Folder[T]{dir, map[string]bool{}}, map[string]*T{}
	if err := safepath.Folder(dir, 0o700); err != nil {
		return f, nil, err
	}
	files, err := filepath.Glob(f.File("*") + "*")
	if err != nil {
		return f, nil, err
	}
	for _, file := range files {
		former, damaged := strings.CutSuffix(file, aside)
		if !strings.HasSuffix(former, suffix) {
			continue // what a process wrote that was killed: digits are behind the suffix
		}
		if damaged {
			f.damaged[key(former)] = true
			continue
		}
		text, err := safepath.ReadFile(file)
		if err != nil {
			return f, nil, err
		}
		v := new(T)
		if err = json.Unmarshal(text, v); err == nil {
			all[key(file)] = v
			continue
		}
		log.Error("a file of state is damaged; what it is about rests until a person has removed it", "kept_as", file+aside, "err", err)
		if err := os.Rename(file, file+aside); err != nil {
			return f, nil, fmt.Errorf("move a damaged file aside: %w", err)
		}
		f.damaged[key(file)] = true
	}
	return f, all, nil
}

func key(file string) string { return strings.TrimSuffix(filepath.Base(file), suffix) }

// File returns the path of a key's file.
func (f Folder[T]) File(key string) string { return filepath.Join(f.dir, key+suffix) }

// Damaged reports whether what was kept for a key is damaged.
func (f Folder[T]) Damaged(key string) bool { return f.damaged[key] }

// Get returns the value of a key. One that is damaged is known, and says nothing.
func (f Folder[T]) Get(key string) (v T, known bool) {
	text, err := safepath.ReadFile(f.File(key))
	return v, err == nil && json.Unmarshal(text, &v) == nil || f.damaged[key]
}

// Put writes the value of a key.
func (f Folder[T]) Put(key string, v *T) error { return Write(f.File(key), v) }

// Remove removes the value of a key. One that is not there is no error.
func (f Folder[T]) Remove(key string) error { return atomicfile.Remove(f.File(key)) }
