// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// fileWatch tells when files come and go, whether or not the folders that they
// will be in exist yet. A nil *fileWatch tells nothing.
type fileWatch struct {
	log *slog.Logger
	w   *fsnotify.Watcher
}

// afterwards are the delays after which to look again once a file came: "ip
// netns" makes an empty file first and mounts the namespace over it, and inotify
// does not report the mount.
var afterwards = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second}

func watchFiles(log *slog.Logger) (*fileWatch, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &fileWatch{log: log, w: w}, nil
}

// watchWith watches files until stop is called: wake has the values of pokes, and a value
// after each change. Where files cannot be watched, only pokes come.
func watchWith(ctx context.Context, log *slog.Logger, pokes <-chan struct{}) (files *fileWatch, wake <-chan struct{}, stop func()) {
	files, err := watchFiles(log)
	if err != nil {
		log.Warn("files cannot be watched; what comes and goes is noticed late", "err", err)
	}
	out, done := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		files.run(ctx, pokes, out)
	}()
	return files, out, func() { cancel(); <-done }
}

// want says which files matter from now on. Each is watched by the nearest
// folder above it that exists.
func (f *fileWatch) want(paths []string) {
	if f == nil {
		return
	}
	dirs := map[string]bool{}
	for _, path := range paths {
		if dir := nearestDir(path); !strings.HasPrefix(dir, "/proc") {
			dirs[dir] = true
		}
	}
	for _, dir := range f.w.WatchList() {
		if !dirs[dir] {
			_ = f.w.Remove(dir) // fails if the folder went, and the watch with it
		}
		delete(dirs, dir)
	}
	for dir := range dirs {
		if err := f.w.Add(dir); err != nil && !errors.Is(err, fsnotify.ErrClosed) {
			f.log.Warn("folder cannot be watched", "folder", dir, "err", err)
		}
	}
}

func nearestDir(path string) string {
	for {
		path = filepath.Dir(path)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		if path == "/" || path == "." {
			return path
		}
	}
}

// run passes pokes on from in to out and adds one for each change of a watched
// folder and after each of the delays.
func (f *fileWatch) run(ctx context.Context, in <-chan struct{}, out chan struct{}) {
	var events chan fsnotify.Event
	var errs chan error
	if f != nil {
		defer f.w.Close()
		events, errs = f.w.Events, f.w.Errors
	}
	again := time.NewTimer(time.Hour)
	again.Stop()
	delays := afterwards
	for {
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-in:
		case err := <-errs: // an overflow: look at everything
			f.log.Debug("file events were lost", "err", err)
		case <-events:
			delays = afterwards
			again.Reset(delays[0])
		case <-again.C:
			if delays = delays[1:]; len(delays) > 0 {
				again.Reset(delays[0])
			}
		}
		poke(out)
	}
}
