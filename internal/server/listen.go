// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// socketMode lets root and the group connect (connecting needs the write bit).
const socketMode = 0o660

// socket is a listening unix socket together with the lock that makes it ours.
type socket struct {
	*net.UnixListener
	lock *os.File
}

// Close stops listening and removes the socket. The lock goes last, so that an
// agent that starts meanwhile cannot lose its fresh socket to our removal. The
// lock's file stays: removing it would let two agents lock two files of one name.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	s.lock.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// listenUnix claims path: the directory is made if it is missing, a socket that
// a dead agent left is removed, one that a living agent serves is not.
func listenUnix(path, group string, log *slog.Logger) (*socket, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, socketError(path, err)
	}
	ln, err := bind(path)
	if err != nil {
		lock.Close()
		return nil, socketError(path, err)
	}
	if err := admitGroup(path, group, log); err != nil {
		ln.Close()
		lock.Close()
		return nil, socketError(path, err)
	}
	return &socket{UnixListener: ln, lock: lock}, nil
}

// socketError names the socket and, where that helps, says what to do.
func socketError(path string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("socket %s cannot be made: %w; run as root, or choose another --socket", path, fs.ErrPermission)
	}
	return fmt.Errorf("socket %s: %w", path, err)
}

var (
	errOtherAgent = errors.New("another agent runs here; stop it first (systemctl stop weir) or choose another --socket")
	errNoSocket   = errors.New("something that is no socket stands there; move it away or choose another --socket")
)

// lockFile takes a lock that the kernel gives back when the process dies. The
// directory is made if it is missing.
func lockFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errOtherAgent
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// bind listens on path. Only a socket that refuses connections is removed
// before: whatever else stands there is somebody's.
func bind(path string) (*net.UnixListener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, errNoSocket
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			conn.Close()
			return nil, errOtherAgent
		} else if !errors.Is(err, unix.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("left by a dead agent: %w", err)
		}
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// admitGroup hands the socket to group. A host without that group is served
// all the same, to root alone: an agent that works matters more.
func admitGroup(path, group string, log *slog.Logger) error {
	if err := chgrp(path, group); err != nil {
		log.Warn("only root can use the socket", "socket", path, "err", err,
			"remedy", "groupadd --system "+group+" and restart the agent")
	}
	return os.Chmod(path, socketMode)
}

func chgrp(path, group string) error {
	if group == "" {
		return nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("group %s has the id %q, which is no number", group, g.Gid)
	}
	return os.Chown(path, -1, gid)
}
