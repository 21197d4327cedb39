// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net"
	"sync"
)

// limited is a listener with so many connections at once as there are slots; further
// ones wait in the kernel's queue. (netutil.LimitListener's connections do not say who
// is at the other end.)
type limited struct {
	*net.UnixListener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.UnixListener.AcceptUnix()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{UnixConn: conn, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept too, if it waits for a slot.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.UnixListener.Close()
}

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	*net.UnixConn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.UnixConn.Close()
}
