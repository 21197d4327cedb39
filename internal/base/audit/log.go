// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/atomicfile"
)

// Limits of the files.
const (
	maxSize  = 16 << 20 // bytes; a larger file is rotated
	keepOld  = 8        // files besides the one that is written
	fileMode = 0o640    // root, and the group that the process runs in
	dirMode  = 0o750
)

// Log is an audit log that is open for writing. A nil Log records nothing. It is safe
// for use by several goroutines.
type Log struct {
	path string
	log  *slog.Logger
	now  func() time.Time
	max  int64 // size at which it is rotated

	mu     sync.Mutex
	file   *os.File // nil until the first line, and after a failure
	size   int64
	lost   int       // lines that could not be written
	since  time.Time // of the first of them
	limits limiter
}

// New makes a log whose newest file is path. The file is made with its first line, so
// that the program starts on a full disk too.
func New(path string, log *slog.Logger) *Log {
	return &Log{path: path, log: log, now: time.Now, max: maxSize}
}

// Path returns the path of the newest file.
func (l *Log) Path() string { return l.path }

// Append records entries; those without a time get the present one. They are on the
// disk when it returns, or in the program's own log.
func (l *Log) Append(entries ...Entry) {
	if l == nil || len(entries) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines [][]byte
	for _, e := range entries {
		if e.Time.IsZero() {
			e.Time = l.now()
		}
		if e.bounded() && !l.limits.admit(&e) {
			continue
		}
		lines = append(lines, e.line())
	}
	if len(lines) == 0 {
		return
	}
	err := l.write(bytes.Join(lines, nil))
	if err == nil {
		return
	}
	if l.lost == 0 {
		l.since = l.now()
	}
	l.lost += len(lines)
	for _, line := range lines {
		l.log.Error("line of the audit log could not be written", "file", l.path, "err", err, "line", string(bytes.TrimSpace(line)))
	}
}

// write puts whole lines to the disk, all or none.
func (l *Log) write(text []byte) error {
	if err := l.open(); err != nil {
		return err
	}
	if l.size > 0 && l.size+int64(len(text)) > l.max {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if l.lost > 0 {
		gap := Entry{Time: l.now(), Who: Who{Via: ViaAgent}, Action: "gap", Result: Done,
			Reason: fmt.Sprintf("%d lines since %s could not be written; they are in the program's log", l.lost, l.since.UTC().Format(time.RFC3339))}
		text = append(gap.line(), text...)
	}
	_, err := l.file.Write(text)
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		// A part of a line would spoil the next one. What was a line stays one.
		err = errors.Join(err, l.file.Truncate(l.size), l.close())
		return err
	}
	l.size += int64(len(text))
	l.lost = 0
	return nil
}

// own are flags to open a file of the log. Package safepath is too strict for it: on Ubuntu
// /var/log belongs to a group of daemons. So the folder may be exchanged by these, and the file
// has to be one that this program has made: no link to another one of root's, no fifo.
const own = unix.O_NOFOLLOW | unix.O_NONBLOCK

// isOwn refuses a file that another user may have put into the place of the log.
func isOwn(path string, info os.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	case known && stat.Nlink > 1:
		return fmt.Errorf("%s has another name; move it away", path)
	case known && stat.Uid != uint32(os.Geteuid()) && stat.Uid != 0:
		return fmt.Errorf("%s belongs to uid %d and has mode %04o; move it away", path, stat.Uid, info.Mode().Perm())
	}
	return nil
}

// open opens the file, or the one that was put in its place.
func (l *Log) open() error {
	if l.file != nil {
		if here, err := os.Stat(l.path); err == nil {
			if mine, err := l.file.Stat(); err == nil && os.SameFile(here, mine) {
				return nil
			}
		}
		_ = l.close() // another program moved the file away: the lines in it are synced
	}
	if err := os.MkdirAll(filepath.Dir(l.path), dirMode); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|own, fileMode)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = isOwn(l.path, info)
	}
	if err == nil && info.Size() == 0 {
		err = f.Chmod(fileMode) // the umask of the unit is 0077
	}
	if err == nil {
		err = endLine(f, info.Size())
	}
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.file, l.size = f, info.Size()
	return atomicfile.SyncDir(filepath.Dir(l.path))
}

// endLine ends a line that a power cut left in its middle.
func endLine(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	last := []byte{0}
	if _, err := f.ReadAt(last, size-1); err != nil {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err := f.WriteString("\n")
	return err
}

func (l *Log) close() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.close()
}

// rotate moves each file one further and begins a new one.
func (l *Log) rotate() error {
	if err := l.close(); err != nil {
		return err
	}
	for n := keepOld; n > 0; n-- {
		if err := os.Rename(l.older(n-1), l.older(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return l.open()
}

// older returns the name of the nth file before the newest.
func (l *Log) older(n int) string {
	if n == 0 {
		return l.path
	}
	return fmt.Sprintf("%s.%d", l.path, n)
}

var _ io.Closer = (*Log)(nil)
