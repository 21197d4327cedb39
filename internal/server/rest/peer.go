// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"log/slog"
	"net"

	"golang.org/x/sys/unix"
)

// Peer is the process at the other end of the socket, as the kernel knows it.
type Peer struct {
	uid uint32
	pid int32
}

// LogValue makes a peer one group of attributes.
func (p Peer) LogValue() slog.Value {
	return slog.GroupValue(slog.Uint64("uid", uint64(p.uid)), slog.Int64("pid", int64(p.pid)))
}

type peerKey struct{}

// WithPeer notes who connected, so that a change can be logged with its author.
func WithPeer(ctx context.Context, conn net.Conn) context.Context {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	if ctrlErr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); ctrlErr != nil || err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, Peer{uid: cred.Uid, pid: cred.Pid})
}

// PeerOf says who made a request; ok is false where that cannot be known.
func PeerOf(ctx context.Context) (p Peer, ok bool) {
	p, ok = ctx.Value(peerKey{}).(Peer)
	return p, ok
}
