// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/core/event"
)

// Events is what events.json has: what was told, and how far each way of tell has come, so that
// the next agent tells nothing twice and nothing less.
type Events struct {
	Version int `json:"version"`
	event.State
	Reached map[string]uint64 `json:"reached"` // id of the last event, by way
}

// EventsFile is an events.json.
type EventsFile struct {
	path string
	last []byte
}

// NewEventsFile returns the file in a folder, which need not exist.
func NewEventsFile(dir string) *EventsFile {
	return &EventsFile{path: filepath.Join(dir, "events.json")}
}

// Load reads the file; of one that is missing or damaged nothing is known. A damaged one is
// kept aside.
func (f *EventsFile) Load(log *slog.Logger) Events {
	text, err := safepath.ReadFile(f.path)
	var kept Events
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err == nil && kept.Version != stateVersion {
		err = fmt.Errorf("version %d, this agent writes %d", kept.Version, stateVersion)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.last = text
		return kept
	}
	aside := f.path + ".damaged"
	log.Error("events of the last run cannot be used; what holds is told again", "file", f.path, "kept_as", aside, "err", err)
	if err := os.Rename(f.path, aside); err != nil {
		log.Error("damaged events cannot be moved aside", "err", err)
	}
	return Events{}
}

// Save writes the file, whole, if it differs from the one on the disk.
func (f *EventsFile) Save(kept Events) error {
	kept.Version = stateVersion
	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keep events: %w", err)
	}
	if text = append(text, '\n'); bytes.Equal(text, f.last) {
		return nil
	}
	if err := safepath.Folder(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("keep events: %w", err)
	}
	if err := atomicfile.Write(f.path, text, 0o600); err != nil {
		return fmt.Errorf("keep events: %w", err)
	}
	f.last = text
	return nil
}
