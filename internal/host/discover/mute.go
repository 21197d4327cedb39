// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"weir/internal/host/discover/unheard"
)

// compare compares a list with what the events have said, and returns how soon to list again.
func (w *dockerRun) compare(l unheard.Listing) (next time.Duration, err error) {
	if l.Err != nil {
		return 0, l.Err
	}
	known := map[string]unheard.Known{}
	for id, c := range w.roster.records {
		_, err := os.Lstat(filepath.Join(w.proc, strconv.Itoa(c.Pid)))
		known[id] = unheard.Known{Name: c.Name, Pid: c.Pid, Runs: c.confirmed, Asked: c.looking, Lives: err == nil}
	}
	return w.lists.Compare(unheard.Differ(l.Running, known))
}
