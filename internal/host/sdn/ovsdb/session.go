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
	"strings"
	"sync"
	"time"

	"weir/internal/base/tlsfile"
)

// errLost is the end of a connection for which there is no other reason.
var errLost = errors.New("the connection is lost; is ovsdb-server running?")

// writeLimit is how long the database may take to read a message.
const writeLimit = 10 * time.Second

// session is a conversation in JSON-RPC as RFC 7047 has it: calls with their answers, the
// database's own echoes, and its updates, in the order in which they come.
type session struct {
	conn   net.Conn
	files  tlsfile.Files
	update func(params json.RawMessage) error
	lost   chan struct{} // closed when it has ended

	writing sync.Mutex // held for a message

	mu      sync.Mutex
	last    uint64 // call
	waiting map[uint64]call
	reason  error // why it ended
}

// call is one that waits for its answer.
type call struct {
	take   func(result json.RawMessage) error // before any later message counts; nil: nothing
	answer chan message
}

// message is one of either side: a request has a method, an answer has none.
type message struct {
	Method string           `json:"method"`
	ID     *json.RawMessage `json:"id"`
	Params json.RawMessage  `json:"params"`
	Result json.RawMessage  `json:"result"`
	Error  *refusal         `json:"error"`
}

// refusal is an error of the database, such as "constraint violation".
type refusal struct {
	Name    string `json:"error"`
	Details string `json:"details"`
}

func (r *refusal) Error() string {
	return strings.TrimSuffix(r.Name+": "+r.Details, ": ")
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

// newSession begins a conversation. update is called with the parameters of each update.
func newSession(conn net.Conn, files tlsfile.Files, update func(json.RawMessage) error) *session {
	s := &session{conn: conn, files: files, update: update, lost: make(chan struct{}), waiting: map[uint64]call{}}
	go func() {
		s.end(messages(conn, s.take))
		close(s.lost)
	}()
	return s
}

// end ends the conversation; the first reason stays.
func (s *session) end(reason error) {
	s.mu.Lock()
	if s.reason == nil {
		s.reason = errLost
		if !errors.Is(reason, net.ErrClosed) && !errors.Is(reason, io.EOF) {
			s.reason = s.files.Explain(reason)
		}
	}
	s.mu.Unlock()
	s.conn.Close()
}

// why returns the reason of the end, nil while there is none.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// take takes one message of the database.
func (s *session) take(text []byte) error {
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return fmt.Errorf("no message of a database: %w", err)
	}
	switch m.Method {
	case "update": // of the only monitor
		return s.update(m.Params)
	case "echo":
		if m.ID == nil {
			return nil
		}
		return s.write(context.Background(), map[string]any{"id": m.ID, "result": m.Params, "error": nil})
	case "":
		return s.answered(m)
	}
	return nil // notices of things that were not asked for
}

// answered hands an answer to the call that waits for it, if it still does.
func (s *session) answered(m message) error {
	var id uint64
	if m.ID == nil || json.Unmarshal(*m.ID, &id) != nil {
		return errors.New("a message of the database is neither a request nor an answer")
	}
	s.mu.Lock()
	c, ok := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if !ok {
		return nil
	}
	if m.Error == nil && c.take != nil {
		if err := c.take(m.Result); err != nil {
			return err
		}
	}
	c.answer <- m
	return nil
}

// call asks the database, and returns its answer. take has it before any later message counts,
// where that matters.
func (s *session) call(ctx context.Context, method string, take func(json.RawMessage) error, params ...any) (json.RawMessage, error) {
	c := call{take, make(chan message, 1)}
	s.mu.Lock()
	s.last++
	id := s.last
	s.waiting[id] = c
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	if params == nil {
		params = []any{}
	}
	if err := s.write(ctx, map[string]any{"id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	select {
	case m := <-c.answer:
		if m.Error != nil {
			return nil, m.Error
		}
		return m.Result, nil
	case <-s.lost:
		return nil, s.why()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// write sends a message. Half a message may be on its way after an error, so that ends all.
func (s *session) write(ctx context.Context, m any) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(writeLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err = s.conn.SetWriteDeadline(deadline); err == nil {
		_, err = s.conn.Write(text)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("it takes no messages")
	}
	if err != nil {
		s.end(err)
		return s.why()
	}
	return nil
}
