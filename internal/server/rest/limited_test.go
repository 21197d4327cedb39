// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestLimited: no more connections at once than there are slots, each that is closed
// makes room for the next, and closing ends who waits for one.
func TestLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{UnixListener: ln, slots: make(chan struct{}, 2), closed: make(chan struct{})}
	accepted := make(chan net.Conn, 10)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	for range 4 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted beside two")
	case <-time.After(50 * time.Millisecond):
	}
	for range 2 { // closing twice frees one slot
		first.Close()
	}
	third := <-accepted
	select {
	case <-accepted:
		t.Fatal("a connection that was closed twice made room for two")
	case <-time.After(50 * time.Millisecond):
	}
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ends with %v", err)
	}
	second.Close()
	third.Close()
}
