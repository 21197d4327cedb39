// SPDX-License-Identifier: Apache-2.0

package rest

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

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/base/crowd"
	"weir/internal/base/safepath"
)

// socketMode lets root and the group connect (connecting needs the write bit).
const socketMode = 0o660

// The most connections to a socket at once, of one user and of all: callers with the role
// view cannot use up the descriptors of the process, and no user keeps another out.
var (
	changers = crowd.ConnLimits{Each: 256, All: 1024}
	viewers  = crowd.ConnLimits{Each: 48, All: 192}
)

// LockedSocket is a listening unix socket together with the lock that makes it ours.
type LockedSocket struct {
	net.Listener
	lock *os.File
}

// Close stops listening and removes the socket. The lock goes last, so that an
// agent that starts meanwhile cannot lose its fresh socket to our removal. The
// lock's file stays: removing it would let two agents lock two files of one name.
func (s *LockedSocket) Close() error {
	err := s.Listener.Close()
	s.lock.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Listen claims path. It makes a missing directory, removes a socket that a dead process
// left, and refuses one that a living process serves, or that another user could exchange.
// group may use the socket besides root, "" = none.
func Listen(path, group, who string, log *slog.Logger) (*LockedSocket, error) {
	lock, err := lockFile(path+".lock", who)
	if err != nil {
		return nil, socketError(path, who, err)
	}
	ln, err := bind(path, group, who, log)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &LockedSocket{Listener: byUser(ln, changers, log.With("socket", path)), lock: lock}, nil
}

// byUser bounds the connections to a socket.
func byUser(ln net.Listener, most crowd.ConnLimits, log *slog.Logger) *crowd.Listener {
	l := crowd.ListenUsers(ln, most, userOf)
	l.Say = func(n int, user string) {
		log.Warn("connections to the socket were closed, to make room", "connections", n, "last", user)
	}
	return l
}

// ListenView opens the socket of the role view, beside the one at path, which Listen has
// claimed. Without the group it returns nil, nil and opens no socket.
func ListenView(path, group, who string, log *slog.Logger) (net.Listener, error) {
	if group == "" {
		return nil, nil
	}
	if _, err := user.LookupGroup(group); err != nil {
		log.Info("no socket for users who may only look", "group", group, "remedy", "groupadd --system "+group+" and restart it")
		return nil, nil
	}
	path = api.ViewSocket(path)
	ln, err := bind(path, group, who, log)
	if err != nil {
		return nil, err
	}
	return byUser(ln, viewers, log.With("socket", path)), nil
}

// socketError names the socket and, where that helps, says what to do.
func socketError(path, who string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("socket %s cannot be made: %w; run as root, or choose another --socket", path, fs.ErrPermission)
	case errors.Is(err, safepath.ErrServed):
		err = &SocketInUseError{who}
	case errors.Is(err, safepath.ErrNotSocket):
		err = fmt.Errorf("%w; move it away or choose another --socket", err)
	}
	return fmt.Errorf("socket %s: %w", path, err)
}

// SocketInUseError is wrapped by the error of Listen where a living process serves the socket.
type SocketInUseError struct{ Who string }

func (e *SocketInUseError) Error() string {
	return "another " + e.Who + " runs here; stop it first (systemctl stop " + Unit(e.Who) + ")"
}

// Unit returns the systemd unit of the program that serves: the agent or the manager.
func Unit(who string) string {
	if who == "agent" {
		return "weir"
	}
	return "weir-" + who
}

// lockFile takes a lock that the kernel gives back when the process dies. The
// directory is made if it is missing.
func lockFile(path, who string) (*os.File, error) {
	if err := safepath.Folder(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := safepath.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &SocketInUseError{who}
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// bind listens on path and hands the socket to group. A host without that group is served
// all the same, to root alone: an agent that works matters more.
func bind(path, group, who string, log *slog.Logger) (net.Listener, error) {
	ln, err := safepath.Listen(path)
	if err != nil {
		return nil, socketError(path, who, err)
	}
	gid, err := groupID(group)
	if err == nil {
		err = ln.Admit(gid, socketMode)
	}
	if err != nil {
		log.Warn("only root can use the socket", "socket", path, "err", err,
			"remedy", "groupadd --system "+group+" and restart it")
		err = ln.Admit(-1, socketMode)
	}
	if err != nil {
		return nil, errors.Join(socketError(path, who, err), ln.Close())
	}
	return ln, nil
}

// groupID returns the number of a group, -1 for none.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, err
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return 0, fmt.Errorf("group %s has the id %q, which is no number", group, g.Gid)
	}
	return gid, nil
}
