// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/config"
)

// former keeps a copy of the configuration file that was in force last, for a start at which the
// file is damaged or has a mistake: shares of a while ago are better than none.
//
// The copy lies in the state folder. Its first line says of which file it is, since an agent may
// be started with another one.
type former struct {
	mu   sync.Mutex
	text []byte // of the file as it was read last
}

// formerName is the copy's name in the state folder.
const formerName = "weir.yaml.in-force"

// load reads the file at path, or, path being "", at the default path if there is one, or was one
// before. With a *config.Error comes what could be read.
func (f *former) load(path string) (config.Config, error) {
	file := cmp.Or(path, config.DefaultPath)
	c, err := config.Load(file)
	if path == "" && errors.Is(err, fs.ErrNotExist) && !f.found() {
		return config.Default(), nil
	}
	if text, unread := safepath.ReadFile(file); err == nil && unread == nil {
		f.mu.Lock()
		f.text = text
		f.mu.Unlock()
	}
	return c, err
}

// found reports whether a file was read.
func (f *former) found() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.text) > 0
}

// keep writes the copy of what was read last.
func (f *former) keep(file, stateDir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.text) == 0 {
		return nil
	}
	text, path := append([]byte(firstLine(file)), f.text...), filepath.Join(stateDir, formerName)
	if kept, err := safepath.ReadFile(path); err == nil && bytes.Equal(kept, text) {
		return nil
	}
	if err := safepath.Folder(stateDir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text, 0o600)
}

// firstLine is that of a copy of file.
func firstLine(file string) string {
	return fmt.Sprintf("# %s as it was in force last; the agent writes this file\n", file)
}

// recall returns the configuration of the copy of file.
func recall(file, stateDir string) (config.Config, error) {
	text, err := safepath.ReadFile(filepath.Join(stateDir, formerName))
	if err != nil {
		return config.Config{}, err
	}
	text, ours := bytes.CutPrefix(text, []byte(firstLine(file)))
	if !ours {
		return config.Config{}, fmt.Errorf("it is a copy of another file than %s", file)
	}
	return config.Parse(file, text)
}
