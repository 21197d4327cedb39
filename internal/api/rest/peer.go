// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/internal/base/audit"
	"weir/internal/base/crowd"
)

// Caller is the process at the other end of the socket, as the kernel knows it.
type Caller struct {
	uid     uint32
	pid     int32
	command string // name that the process gave itself, "" if that cannot be known
	login   string // user id by which it logged in, "" if there is none
}

// LogValue makes a peer one group of attributes.
func (p Caller) LogValue() slog.Value {
	return slog.GroupValue(slog.Uint64("uid", uint64(p.uid)), slog.Int64("pid", int64(p.pid)))
}

type peerKey struct{}

// WithPeer adds the peer of a connection to a context, so that a change can be logged
// with its author.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*crowd.Conn); ok {
		conn = c.NetConn()
	}
	uc, ok := conn.(syscall.Conn)
	if _, unixSocket := conn.LocalAddr().(*net.UnixAddr); !ok || !unixSocket {
		return ctx
	}
	var p Caller
	if err := onSocket(uc, func(fd int) (err error) { p, err = peerOf(fd); return err }); err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, p)
}

// onSocket calls f with the descriptor of a connection.
func onSocket(conn syscall.Conn, f func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	if ctrlErr := raw.Control(func(fd uintptr) { err = f(int(fd)) }); ctrlErr != nil {
		return ctrlErr
	}
	return err
}

// userOf returns the user at the other end of a unix socket, as a party of package crowd.
func userOf(conn net.Conn) (party string, err error) {
	uc, ok := conn.(syscall.Conn)
	if !ok {
		return "", fmt.Errorf("a connection of type %T", conn)
	}
	var cred *unix.Ucred
	if err := onSocket(uc, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	}); err != nil {
		return "", err
	}
	return "uid " + strconv.FormatUint(uint64(cred.Uid), 10), nil
}

// peerOf asks the kernel who connected a unix socket.
func peerOf(fd int) (Caller, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Caller{}, err
	}
	p := Caller{uid: cred.Uid, pid: cred.Pid}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD) // Linux 6.5 and later
	if err != nil {
		return p, nil
	}
	defer unix.Close(pidfd)
	folder := "/proc/" + strconv.Itoa(int(p.pid)) + "/"
	command, login := readWord(folder+"comm"), readWord(folder+"loginuid")
	// The reading is the peer's only if the peer still lives: else another process may
	// have its number by now. A signal 0 that is not permitted reached a living process
	// too.
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return p, nil
	}
	p.command = command
	if login != noLogin {
		p.login = login
	}
	return p, nil
}

// noLogin is the loginuid of a process outside of any login, such as a daemon.
const noLogin = "4294967295"

// readWord returns the first line of a small file of /proc, "" if it cannot be read.
func readWord(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	word, _, _ := strings.Cut(string(text), "\n")
	return word
}

// PeerOf returns the peer that made a request; ok is false where the kernel does not
// tell.
func PeerOf(ctx context.Context) (p Caller, ok bool) {
	p, ok = ctx.Value(peerKey{}).(Caller)
	return p, ok
}

type authorKey struct{}

// WithAuthor adds to a context the author of a request that did not come over the socket.
func WithAuthor(ctx context.Context, who audit.Who) context.Context {
	return context.WithValue(ctx, authorKey{}, who)
}

// Author returns the author of a request, for the audit log: over a unix socket, unless
// WithAuthor says another way.
func Author(ctx context.Context) audit.Who {
	if who, ok := ctx.Value(authorKey{}).(audit.Who); ok {
		return who
	}
	if p, ok := PeerOf(ctx); ok {
		return p.author(audit.ViaSocket)
	}
	return audit.Who{Via: audit.ViaSocket}
}

func (p Caller) author(via string) audit.Who {
	uid := strconv.FormatUint(uint64(p.uid), 10)
	who := audit.Who{Via: via, UID: &p.uid, User: userName(uid), PID: p.pid, Command: p.command}
	if p.login != "" && p.login != uid {
		who.Login = userName(p.login)
	}
	return who
}

// Self returns the user and the program of this process, for changes that a command makes
// by itself.
func Self() audit.Who {
	p := Caller{uid: uint32(os.Getuid()), pid: int32(os.Getpid()), command: readWord("/proc/self/comm"), login: readWord("/proc/self/loginuid")}
	if p.login == noLogin {
		p.login = ""
	}
	return p.author(audit.ViaCommand)
}

// userName returns a user's name, or the number of a user without a name.
func userName(uid string) string {
	if u, err := user.LookupId(uid); err == nil {
		return u.Username
	}
	return uid
}
