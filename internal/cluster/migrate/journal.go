// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Kind says what a record of the journal means.
type Kind string

// The kinds, in the order in which they come. Everything from KindConfirm on binds
// the process that goes on with the migration after a crash.
const (
	KindBegin     Kind = "begin"     // with the order
	KindStep      Kind = "step"      // a step is about to be taken
	KindDone      Kind = "done"      // it was taken
	KindFailed    Kind = "failed"    // it failed, or its outcome is unknown
	KindConfirm   Kind = "confirm"   // the target's copy is to be the one: no way back unless it is gone
	KindConfirmed Kind = "confirmed" // it is
	KindRollback  Kind = "rollback"  // the source's container is to be the one, see Err
	KindThawed    Kind = "thawed"    // it is; the target may have to be cleaned up still
	KindEnd       Kind = "end"       // with the state that came of it
)

// JournalEntry is one line of a journal.
type JournalEntry struct {
	At       time.Time      `json:"at"`
	Kind     Kind           `json:"kind"`
	Order    *MoveSpec      `json:"order,omitempty"`
	Node     string         `json:"node,omitempty"`
	Step     string         `json:"step,omitempty"` // a Step, or "send " and a Part
	Outcome  *StepOutcome   `json:"outcome,omitempty"`
	Duration time.Duration  `json:"duration_ns,omitempty"`
	Downtime time.Duration  `json:"downtime_ns,omitempty"`
	State    wire.MoveState `json:"state,omitempty"`
	Err      string         `json:"error,omitempty"`
}

// Journal is the memory of one migration: a file of JSON lines to which each record
// is appended and synced before what it announces is done. The file is locked while
// it is open.
type Journal struct {
	file     *os.File
	records  []JournalEntry
	decision decision
}

// Journals is the folder that holds them, e.g. /var/lib/weir/migrate.
type Journals struct{ Dir string }

var movePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)

// ErrBusy says that another process works with the journal.
var ErrBusy = errors.New("another process works with this migration")

// Begin makes the journal of a new migration.
func (d Journals) Begin(o MoveSpec) (*Journal, error) {
	if !movePattern.MatchString(o.Move) {
		return nil, fmt.Errorf("migration id %q: letters, digits and - are possible", o.Move)
	}
	if err := safepath.Folder(d.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.path(o.Move), os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the journal: %w", err)
	}
	j := &Journal{file: f}
	err = errors.Join(j.lock(), atomicfile.SyncDir(d.Dir), j.Append(JournalEntry{Kind: KindBegin, Order: &o}))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func (d Journals) path(move string) string { return filepath.Join(d.Dir, move+".jsonl") }

// Open opens the journal of a migration and reads its records.
func (d Journals) Open(move string) (*Journal, error) {
	f, err := os.OpenFile(d.path(move), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	j := &Journal{file: f}
	if err := errors.Join(j.lock(), j.read()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// Unfinished opens the journals of all migrations that have not come to an end and
// that no other process works with.
func (d Journals) Unfinished() (list []*Journal, err error) {
	files, err := os.ReadDir(d.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, entry := range files {
		move, ok := strings.CutSuffix(entry.Name(), ".jsonl")
		if !ok {
			continue
		}
		j, err := d.Open(move)
		switch {
		case errors.Is(err, ErrBusy):
		case err != nil:
			errs = append(errs, err)
		case j.Phase() == PhaseOver:
			errs = append(errs, j.Close())
		default:
			list = append(list, j)
		}
	}
	return list, errors.Join(errs...)
}

// Expire removes journals of migrations that ended longer than age ago.
func (d Journals) Expire(age time.Duration) error {
	files, err := filepath.Glob(d.path("*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || time.Since(info.ModTime()) < age {
			continue
		}
		j, err := d.Open(strings.TrimSuffix(filepath.Base(file), ".jsonl"))
		if err != nil {
			continue
		}
		if j.Phase() == PhaseOver {
			err = os.Remove(file)
		}
		if err = errors.Join(err, j.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) lock() error {
	err := unix.Flock(int(j.file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return err
}

// read takes all whole lines; what a crash has left of a last one is cut off.
func (j *Journal) read() error {
	text, err := safepath.ReadFile(j.file.Name())
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole < len(text) {
		if err := j.file.Truncate(int64(whole)); err != nil {
			return err
		}
	}
	for line := range bytes.Lines(text[:whole]) {
		var r JournalEntry
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%s: %w", j.file.Name(), err)
		}
		j.records = append(j.records, r)
	}
	phase := j.Phase()
	j.decision.confirmed = phase == PhaseConfirming || phase == PhaseForgetting
	if len(j.records) == 0 || j.records[0].Order == nil {
		// A crash while it was begun: nothing was done yet.
		return errors.Join(fmt.Errorf("%s: it has no beginning; nothing was done", j.file.Name()), os.Remove(j.file.Name()))
	}
	return nil
}

// Append writes a record down for good.
func (j *Journal) Append(r JournalEntry) error {
	if r.At.IsZero() {
		r.At = time.Now().UTC()
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.records = append(j.records, r)
	return nil
}

// Order returns the order that the migration began with.
func (j *Journal) Order() MoveSpec { return *j.records[0].Order }

// Entries returns all records so far.
func (j *Journal) Entries() []JournalEntry { return j.records }

// Close lets others work with the journal.
func (j *Journal) Close() error { return j.file.Close() }

// ResumePhase says how a migration has to go on.
type ResumePhase int

// The phases of a migration, by what its journal says.
const (
	PhaseForward    ResumePhase = iota // nothing is decided: it may go on, and after a crash it goes back
	PhaseConfirming                    // the target is to be asked until it answers
	PhaseForgetting                    // the target has it; the source is to be cleaned up
	PhaseBack                          // the source is to have it
	PhaseDiscarding                    // the source has it; the target is to be cleaned up
	PhaseOver
)

// Phase returns the phase that the records lead to.
func (j *Journal) Phase() ResumePhase {
	phase := PhaseForward
	for _, r := range j.records {
		switch r.Kind {
		case KindConfirm:
			phase = PhaseConfirming
		case KindConfirmed:
			phase = PhaseForgetting
		case KindRollback:
			phase = PhaseBack
		case KindThawed:
			phase = PhaseDiscarding
		case KindEnd:
			phase = PhaseOver
		}
	}
	return phase
}

// frozen returns when the container was told to stand still; zero if it was not, or
// if it runs again.
func (j *Journal) frozen() (since time.Time) {
	for _, r := range j.records {
		switch {
		case r.Step == string(move.Freeze) && since.IsZero():
			since = r.At
		case r.Kind == KindConfirmed, r.Kind == KindThawed:
			return time.Time{}
		}
	}
	return since
}

// restoring says since when the target may have a copy; zero if it never was told to.
func (j *Journal) restoring() (since time.Time) {
	for _, r := range j.records {
		if r.Step == string(move.Restore) {
			since = r.At // the last: its answer, or that it did not come
		}
	}
	return since
}
