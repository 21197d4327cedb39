// SPDX-License-Identifier: Apache-2.0

// Package reload has what an agent knows of its configuration file: when it is to be read
// again, and what became of that. It reads nothing itself.
//
//	file.Failed(err)          // news: the log has not said this mistake yet
//	file.Succeeded(now, late)
//	file.Wrong                // "": the file on the disk is the one in force
package reload

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"weir/internal/api"
	"weir/internal/config"
)

// FileStatus is what became of the file since the agent was started.
type FileStatus struct {
	api.Reloads
	Wrong string   // the mistake in the file on the disk, "" = none
	Late  []string // settings of the file that count from the next start of the agent on
}

// Succeeded notes that the file is in force but for the settings that are late.
func (f *FileStatus) Succeeded(now time.Time, late []string) {
	f.OK++
	f.LastOK, f.Wrong, f.Late = now.UTC(), "", late
}

// Failed notes a bad file, and reports whether that is news.
func (f *FileStatus) Failed(err error) (news bool) {
	f.Reloads.Failed++
	news = f.Wrong != err.Error()
	f.Wrong = err.Error()
	return news
}

// Watch calls reload, with the reason, when the file changes and on SIGHUP, until ctx ends.
func Watch(ctx context.Context, log *slog.Logger, path string, reload func(why string)) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		if err := config.Watch(ctx, path, func() { reload("file changed") }); err != nil {
			log.Warn("changes of the configuration are noticed on SIGHUP only", "err", err)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			reload("SIGHUP")
		}
	}
}
