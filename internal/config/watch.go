// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"weir/internal/base/safepath"
)

// settle is the time for which a directory must be quiet before the file is read again:
// editors write in several steps.
const settle = 200 * time.Millisecond

// doubt is the time for which a file must be empty, or gone, before that is believed: a writer
// that empties the file first, or moves it away, may be slow, and without a policy all workloads
// would be equal until it goes on.
const doubt = 5 * settle

// Watch calls changed after each change of the file's content, from one goroutine, until
// ctx ends, and once when it begins, since the file may have changed between its first
// reading and the watch. It watches the directory and not the file, since editors and
// Kubernetes put a new file in the old one's place; an event that leaves the content as
// it was is not reported, and a file that is empty, or gone, only once it stays so.
func Watch(ctx context.Context, file string, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", file, err)
	}
	defer watcher.Close()
	if err := watcher.Add(filepath.Dir(file)); err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(file), err)
	}
	var last []byte
	doubted := false
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-watcher.Events:
			if !ok {
				return nil
			}
			doubted = false
			quiet.Reset(settle)
		case _, ok := <-watcher.Errors: // events were lost: look
			if !ok {
				return nil
			}
			quiet.Reset(settle)
		case <-quiet.C:
			now, err := safepath.ReadFile(file)
			if refused := new(safepath.Error); errors.As(err, &refused) {
				now, err = fmt.Append(nil, refused), nil // Load refuses it as well, and says so
			}
			if errors.Is(err, fs.ErrNotExist) {
				now, err = nil, nil
			}
			if err != nil || bytes.Equal(now, last) {
				continue
			}
			if len(now) == 0 && !doubted {
				doubted = true
				quiet.Reset(doubt)
				continue
			}
			doubted = false
			last = now
			changed()
		}
	}
}
