// SPDX-License-Identifier: Apache-2.0

package safepath

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotSocket is the error about a path at which something is that is no socket.
	ErrNotSocket = errors.New("something that is no socket stands there")
	// ErrServed is the error about a socket that a living process serves.
	ErrServed = errors.New("a process serves the socket")
)

// Socket is a listening unix socket in a folder that root and this process alone may change.
type Socket struct {
	*net.UnixListener
	path string
	file *os.File // by O_PATH
}

// Listen makes a socket that root and the user of this process may connect to. Its folder is
// made if it is missing. A socket that a dead process has left is replaced; any other file is
// kept, and is an error.
//
// The socket is bound by its path, for ss and for those who connect. No other user can exchange
// a folder on it between the examination and the bind. Later the socket's owner and mode are
// those of the file that was found in the open folder.
func Listen(path string) (*Socket, error) {
	above, name := split(path)
	folder, err := openFolder(above, 0o755)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	if err := vacate(folder, name, path); err != nil {
		return nil, err
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	file, err := openAt(int(folder.Fd()), name, path)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	s := &Socket{UnixListener: ln, path: path, file: file}
	owner, mode, err := stat(file)
	if err == nil && (mode&fs.ModeSocket == 0 || owner != uint32(os.Geteuid())) {
		err = ErrNotSocket
	}
	if err == nil {
		err = s.Admit(-1, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// vacate removes a socket that refuses connections.
func vacate(folder *os.File, name, path string) error {
	var was unix.Stat_t
	err := unix.Fstatat(int(folder.Fd()), name, &was, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case was.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return ErrNotSocket
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return ErrServed
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return err
	}
	if err := unix.Unlinkat(int(folder.Fd()), name, 0); err != nil {
		return fmt.Errorf("left by a dead process: %w", err)
	}
	return nil
}

// Admit gives the socket to a group, -1 = leave that, and sets its mode. Connecting needs the
// right to write.
func (s *Socket) Admit(gid int, mode fs.FileMode) error {
	if gid >= 0 {
		if err := unix.Fchownat(int(s.file.Fd()), "", -1, gid, unix.AT_EMPTY_PATH); err != nil {
			return &fs.PathError{Op: "chown", Path: s.path, Err: err}
		}
	}
	if err := os.Chmod(Descriptor(s.file.Fd()), mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: s.path, Err: bare(err)}
	}
	return nil
}

// Close stops listening and removes the socket.
func (s *Socket) Close() error { return errors.Join(s.UnixListener.Close(), s.file.Close()) }
