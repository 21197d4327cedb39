// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"weir/internal/base/tlsfile"
	"weir/internal/core/bound"
)

// libovsdb makes its connections itself, reads messages of any size and keeps all rows
// that it is sent. So it gets a socket of this process, and the relay passes on the
// database's messages there within bounds. The relay speaks TLS too, by the rules of all
// connections (package tlsfile).

// Bounds of a database's messages. Open vSwitch's own with 1,000 ports sends 2 MB.
const (
	maxMessage = bound.Database       // bytes of one message
	maxDepth   = bound.DatabaseLevels // of its arrays and objects
	maxRows    = 100000               // of all tables together
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
	if network == "ssl" {
		conn, err := files.DialByName(ctx, where)
		return conn, files.Explain(err)
	}
	return new(net.Dialer).DialContext(ctx, network, where)
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

// run passes on the messages of both sides until one of them ends.
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

// why returns the reason for which it ended, nil if that was an ordinary end.
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

// pass copies messages, each when it is whole and makes sense, and ends with an error
// at one that does not or is beyond the bounds.
func pass(to io.Writer, from io.Reader) error {
	var (
		f     frame
		whole []byte
	)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		for rest := buffer[:n]; len(rest) > 0; {
			used, ended, broken := f.add(rest)
			if broken != nil {
				return broken
			}
			whole, rest = append(whole, rest[:used]...), rest[used:]
			if !ended {
				continue
			}
			if err := check(whole); err != nil {
				return err
			}
			if _, err := to.Write(whole); err != nil {
				return err
			}
			whole = whole[:0]
			if cap(whole) > 1<<20 {
				whole = nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// check refuses a message that is neither a request nor an answer: libovsdb's reader
// crashes on a message without a method and without an id.
func check(text []byte) error {
	var m struct {
		Method string           `json:"method"`
		ID     *json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("no message of a database: %w", err)
	}
	if m.Method != "" {
		return nil
	}
	var id uint64
	if m.ID == nil || json.Unmarshal(*m.ID, &id) != nil {
		return errors.New("a message of the database is neither a request nor an answer")
	}
	return nil
}

// frame follows a stream of JSON messages, which have nothing between them: where one
// ends shows by its brackets.
type frame struct {
	size, depth   int
	quoted, escap bool
}

// add takes bytes up to the end of the message, and says how many and whether that is
// there.
func (f *frame) add(b []byte) (used int, ended bool, err error) {
	for i, c := range b {
		if f.size++; f.size > maxMessage {
			return 0, false, fmt.Errorf("message of more than %d MB", maxMessage>>20)
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
				return 0, false, fmt.Errorf("message with more than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			if f.depth--; f.depth <= 0 {
				*f = frame{}
				return i + 1, true, nil
			}
		}
	}
	return len(b), false, nil
}
