// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"weir/internal/tlsfile"
)

// libovsdb makes its connections itself, reads messages of any size and keeps all rows
// that it is sent. So it is given a socket of this process, and what a database says
// is passed on there within bounds. TLS is made on the way too, by the rules that hold
// for all connections (package tlsfile).

// Bounds of what a database may say. Open vSwitch's own with 1,000 ports sends 2 MB.
const (
	maxMessage = 32 << 20 // bytes of one message
	maxDepth   = 64       // of its arrays and objects
	maxRows    = 100000   // of all tables together
)

// relay is one connection to a database and libovsdb's end of it.
type relay struct {
	endpoint string
	up       net.Conn
	files    tlsfile.Files
	dir      string
	listener net.Listener

	mu     sync.Mutex
	reason error // why it ended
}

// dialUp connects to unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT.
func dialUp(ctx context.Context, address string, files tlsfile.Files) (net.Conn, error) {
	network, where, _ := strings.Cut(address, ":")
	var dialer net.Dialer
	if network != "ssl" {
		return dialer.DialContext(ctx, network, where)
	}
	host, _, err := net.SplitHostPort(where)
	if err != nil {
		return nil, err
	}
	cfg, err := files.ClientByName(host)
	if err != nil {
		return nil, err
	}
	conn, err := dialer.DialContext(ctx, "tcp", where)
	if err != nil {
		return nil, err
	}
	secure, err := tlsfile.Shake(ctx, conn, cfg)
	return secure, files.Explain(err)
}

// newRelay connects and waits for libovsdb at its endpoint, a socket in a folder that
// is closed to others.
func newRelay(ctx context.Context, address string, files tlsfile.Files) (*relay, error) {
	up, err := dialUp(ctx, address, files)
	if err != nil {
		return nil, err
	}
	r := &relay{up: up, files: files}
	if r.dir, err = os.MkdirTemp("", "weir-ovsdb-"); err != nil {
		up.Close()
		return nil, err
	}
	path := filepath.Join(r.dir, "s")
	if r.listener, err = net.Listen("unix", path); err != nil {
		r.close()
		return nil, err
	}
	r.endpoint = "unix:" + path
	go r.run()
	return r, nil
}

// run passes on what both sides say until one of them ends.
func (r *relay) run() {
	down, err := r.listener.Accept()
	r.listener.Close()
	os.RemoveAll(r.dir)
	if err != nil {
		r.up.Close()
		return
	}
	go func() {
		_, _ = io.Copy(r.up, down)
		r.up.Close()
	}()
	err = pass(down, r.up)
	r.mu.Lock()
	if r.reason == nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
		r.reason = r.files.Explain(err)
	}
	r.mu.Unlock()
	down.Close()
	r.up.Close()
}

// why is the reason for which it ended, nil if that was an ordinary end.
func (r *relay) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

// end ends the connection for a reason.
func (r *relay) end(reason error) {
	r.mu.Lock()
	if r.reason == nil {
		r.reason = reason
	}
	r.mu.Unlock()
	r.up.Close()
}

func (r *relay) close() {
	r.up.Close()
	if r.listener != nil {
		r.listener.Close()
	}
	os.RemoveAll(r.dir)
}

// pass copies messages and ends with an error at one that is beyond the bounds.
func pass(to io.Writer, from io.Reader) error {
	var f frame
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if broken := f.add(buffer[:n]); broken != nil {
			return broken
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
}

// frame follows a stream of JSON messages, which have nothing between them: where one
// ends shows by its brackets.
type frame struct {
	size, depth   int
	quoted, escap bool
}

func (f *frame) add(b []byte) error {
	for _, c := range b {
		if f.size++; f.size > maxMessage {
			return fmt.Errorf("message of more than %d MB", maxMessage>>20)
		}
		switch {
		case f.escap:
			f.escap = false
		case f.quoted:
			f.escap, f.quoted = c == '\\', c != '"'
		case c == '"':
			f.quoted = true
		case c == '{' || c == '[':
			if f.depth++; f.depth > maxDepth {
				return fmt.Errorf("message with more than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			if f.depth--; f.depth <= 0 {
				*f = frame{}
			}
		}
	}
	return nil
}
