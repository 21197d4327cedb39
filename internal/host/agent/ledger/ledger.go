// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/base/statefile"
	"weir/internal/core/plan"
)

const (
	// version is that of the form of the files.
	version = 1
	// keepDays is how many days that are over are kept.
	keepDays = 400
	// writeEvery is what a power cut loses at most; a kill loses nothing.
	writeEvery = 10 * time.Second
)

// present is the file now.json.
type present struct {
	Version int                 `json:"version"`
	Links   map[string]*base    `json:"links"`
	Quotas  map[string]*account `json:"quotas,omitempty"`
	Renamed []renaming          `json:"renamed,omitempty"`
	day
}

// Ledger is a folder of files and what is not in them yet. It belongs to one goroutine.
type Ledger struct {
	dir     string
	log     *slog.Logger
	book    *book
	written time.Time // when now.json was written, or tried to be
	changed bool      // since then
	failing bool      // that the disk does not take it was written down
	earlier earlier
	renamed []renaming // in order
}

// Open reads what an earlier agent left in a folder, which need not exist. A file that cannot
// be understood is moved aside, with a line in the log, and counting begins anew.
func Open(dir string, log *slog.Logger) (*Ledger, error) {
	l := &Ledger{dir: dir, log: log, book: newBook(day{}, nil, nil), earlier: newEarlier()}
	if err := safepath.Folder(dir, 0o700); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	text, err := safepath.ReadFile(l.now())
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	var p present
	if err = json.Unmarshal(text, &p); err == nil && (p.Version != version || !isDate(p.Date)) {
		err = fmt.Errorf("version %d and day %q; this agent writes version %d", p.Version, p.Date, version)
	}
	if err != nil {
		aside := l.now() + ".damaged"
		log.Error("the usage of the last day cannot be read, beginning anew", "file", l.now(), "kept_as", aside, "err", err)
		if err := os.Rename(l.now(), aside); err != nil {
			return nil, fmt.Errorf("usage: move a damaged file aside: %w", err)
		}
		return l, nil
	}
	for _, b := range p.Links {
		b.present = map[plan.ClassID]bool{}
		for id := range b.Classes {
			b.present[id] = true
		}
	}
	l.book, l.renamed = newBook(p.day, p.Links, p.Quotas), p.Renamed
	return l, nil
}

func (l *Ledger) now() string             { return filepath.Join(l.dir, "now.json") }
func (l *Ledger) file(date string) string { return filepath.Join(l.dir, date+".json") }

// Take adds a reading at a moment.
func (l *Ledger) Take(at time.Time, r Reading) {
	if date := dateOf(at); date != l.book.date {
		l.turn(date)
	}
	l.changed = l.book.take(at.UTC().Hour(), r) || l.changed
}

// turn puts the day of the book into its file and begins another day, which may have a file
// already where the clock was set back. If the file cannot be written, the book stays as it is
// and the bytes count as those of the former day.
func (l *Ledger) turn(date string) {
	if l.book.date != "" {
		if err := l.writeDay(l.book.day()); err != nil {
			l.complain(err)
			return
		}
	}
	d, err := readDay(l.file(date))
	if err != nil {
		l.log.Error("a day of the usage cannot be read; what it had is lost", "err", err)
	}
	d.Date = date
	next := newBook(d, l.book.bases, l.book.quotas)
	next.lost = true
	l.book = next
	l.prune()
}

func (l *Ledger) writeDay(d day) error {
	return statefile.Write(l.file(d.Date), d)
}

// readDay returns the day in a file, without a date if there is no file.
func readDay(path string) (d day, err error) {
	if err := statefile.Read(path, &d); err != nil {
		return day{}, fmt.Errorf("usage of a day: %w", err)
	}
	return d, nil
}

// prune removes the oldest days beyond those that are kept.
func (l *Ledger) prune() {
	dates := datesIn(l.dir)
	for _, date := range dates[:max(0, len(dates)-keepDays)] {
		if err := atomicfile.Remove(l.file(date)); err != nil {
			l.complain(err)
		}
	}
}

// datesIn returns the days that have a file in a folder, the oldest first.
func datesIn(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*.json")) // fails only for a bad pattern
	var dates []string
	for _, f := range files {
		if date := strings.TrimSuffix(filepath.Base(f), ".json"); isDate(date) {
			dates = append(dates, date)
		}
	}
	slices.Sort(dates)
	return dates
}

// WriteDue writes what has to be kept by now.
func (l *Ledger) WriteDue(at time.Time) {
	if !l.changed && !l.book.lost {
		return
	}
	if since := at.Sub(l.written); l.book.lost || since < 0 || since >= writeEvery {
		l.Write(at)
	}
}

// Settle writes what the kernel may soon no longer hold.
func (l *Ledger) Settle(at time.Time) {
	if l.changed || l.book.lost {
		l.Write(at)
	}
}

// Write puts everything on the disk.
func (l *Ledger) Write(at time.Time) {
	if l.book.date == "" {
		return // nothing was read yet
	}
	l.written = at
	if err := statefile.Write(l.now(), present{version, l.book.bases, l.book.quotas, l.renamed, l.book.day()}); err != nil {
		l.complain(err)
		return
	}
	l.changed, l.book.lost, l.failing = false, false, false
}

// complain logs a problem when it is new, not at every attempt.
func (l *Ledger) complain(err error) {
	if !l.failing {
		l.log.Error("usage cannot be kept; it is lost if the host goes down", "err", err)
	}
	l.failing = true
}

// Boot returns what is another with each boot of the host, "" where the kernel does not say.
func Boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without it, counters that went back still tell
	return strings.TrimSpace(string(id))
}
