// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// serve starts a database whose answers a test sets, and returns its address: first the
// rows, and then whatever after writes.
func serve(t testing.TB, rows string, after func(io.Writer)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go answer(conn, rows, after)
		}
	}()
	return "unix:" + path
}

func answer(conn net.Conn, rows string, after func(io.Writer)) {
	defer conn.Close()
	in := json.NewDecoder(conn)
	for {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if in.Decode(&request) != nil {
			return
		}
		result, watching := "{}", false
		switch request.Method {
		case "monitor":
			result, watching = rows, true
		case "echo":
			result = "[]"
		}
		if _, err := fmt.Fprintf(conn, `{"id":%s,"result":%s,"error":null}`, request.ID, result); err != nil {
			return
		}
		if watching && after != nil {
			after(conn)
		}
	}
}

const oneBridge = `{"Bridge":{"11111111-1111-1111-1111-111111111111":{"new":{"name":"s1"}}}}`

func connect(t testing.TB, address string, limit time.Duration) (*Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return Dial(ctx, address, tlsfile.Files{})
}

// TestHostileDatabase: what a database says cannot make the agent take memory without
// end, and ends the connection with a reason.
func TestHostileDatabase(t *testing.T) {
	c, err := connect(t, serve(t, oneBridge, nil), 5*time.Second)
	if err != nil {
		t.Fatalf("an honest one: %v", err)
	}
	if s, err := c.Snapshot(); err != nil || len(s.Bridges) != 1 || s.Bridges[0].Name != "s1" {
		t.Errorf("an honest one: %+v, %v", s, err)
	}
	c.Close()
	repeat := func(head, again string) func(io.Writer) {
		return func(w io.Writer) {
			_, err := io.WriteString(w, head)
			for block := strings.Repeat(again, 64<<10/len(again)+1); err == nil; {
				_, err = io.WriteString(w, block)
			}
		}
	}
	rows := func(w io.Writer) {
		for n := 0; ; n += 1000 {
			var b bytes.Buffer
			b.WriteString(`{"id":null,"method":"update","params":[null,{"Queue":{`)
			for i := n; i < n+1000; i++ {
				if i > n {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `"%08x-1111-1111-1111-111111111111":{"new":{}}`, i)
			}
			b.WriteString(`}}]}`)
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
		}
	}
	for _, test := range []struct {
		name, want string
		after      func(io.Writer)
	}{
		{"a string without end", "message of more than 8 MB", repeat(`{"id":null,"method":"update","params":["`, "x")},
		{"blanks without end", "message of more than 8 MB", repeat("", " ")},
		{"numbers without end", "message with more than 174762 values", repeat(`{"id":null,"method":"echo","params":[[[[1`, ",1")},
		{"levels without end", "more than 64 levels", repeat("", "[")},
		{"neither request nor answer", "neither a request nor an answer", func(w io.Writer) { _, _ = io.WriteString(w, `{"id":null,"params":[]}`) }},
		{"answer with a name for an id", "neither a request nor an answer", func(w io.Writer) { _, _ = io.WriteString(w, `{"id":"x","result":7}`) }},
		{"no message", "no message of a database", func(w io.Writer) { _, _ = io.WriteString(w, `["hello"]`) }},
		{"rows without end", "more than 32768 rows", rows},
		{"long rows without end", "rows of more than 32 MB", func(w io.Writer) {
			long := strings.Repeat("x", maxRow-100)
			var err error
			for n := 0; err == nil; n++ {
				_, err = fmt.Fprintf(w, `{"id":null,"method":"update","params":[null,{"Queue":{"%d":{"new":{"other_config":["map",[["a","%s"]]]}}}}]}`, n, long)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := connect(t, serve(t, oneBridge, test.after), 60*time.Second)
			if err == nil {
				select {
				case <-c.Lost():
				case <-time.After(60 * time.Second):
					t.Fatal("is read for a minute")
				}
				_, err = c.Snapshot()
				if err == nil {
					err = c.Alive(t.Context())
				}
				c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			t.Logf("%d MB from the system", m.Sys>>20)
			if m.Sys > 1<<30 {
				t.Errorf("took %d MB", m.Sys>>20)
			}
		})
	}
}

// TestDatabaseThatTakesNothing: a database that only speaks does not have the agent wait.
func TestDatabaseThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		s, began := newSession(ours, tlsfile.Files{}, nil), time.Now()
		if _, err := io.WriteString(theirs, `{"id":"echo","method":"echo","params":[]}`); err != nil {
			t.Fatal(err)
		}
		<-s.lost
		if waited := time.Since(began); waited != writeLimit || s.why().Error() != "it takes no messages" {
			t.Errorf("ended after %v: %v", waited, s.why())
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":["b\"]",{}]} {"method":"echo","id":"x"}`))
	f.Add([]byte(`{"id":null}`))
	boundtest.Seeds[[]byte](f, bound.Database, `{"id":1,"result":`)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			var out []byte
			err := messages(bytes.NewReader(data), func(text []byte) error {
				if out = append(out, text...); len(text) > maxMessage {
					t.Fatalf("a message of %d bytes", len(text))
				}
				return nil
			})
			if err == nil || !bytes.HasPrefix(data, out) {
				t.Fatalf("%v, %q of %q", err, out, data)
			}
		})
	})
}

// FuzzDatabase: whatever a database answers and says, the client ends in order.
func FuzzDatabase(f *testing.F) {
	f.Add(oneBridge, `{"id":null,"method":"update","params":[null,{"Bridge":{"11111111-1111-1111-1111-111111111111":{"new":{"ports":["set",[["uuid","x"]]]}}}}]}`)
	f.Add(`{"QoS":{"11111111-1111-1111-1111-111111111111":{"new":{"queues":["map",[[1,["uuid","x"]]]]}}}}`, `{"id":"x","result":7}`)
	f.Add(`{"Port":{"11111111-1111-1111-1111-111111111111":{"new":{"qos":["set",[]],"name":7}}}}`, `{"id":null,"method":"update","params":[null,{"Port":{"x":{"old":{},"new":{}}}}]}`)
	f.Add(`{"Queue":{"x":{"new":{"dscp":["set",[1,2]]}}}}`, `{"id":null,"method":"echo","params":{}}{"id":"x","method":"echo"}`)
	for _, text := range boundtest.Texts(maxRow) {
		f.Add(text, `{"id":null,"method":"update","params":[`+text)
	}
	f.Fuzz(func(t *testing.T, rows, after string) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		defer ours.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		boundtest.Hold(t, func() {
			c := &Conn{changed: make(chan struct{}, 1)}
			c.session = &session{conn: ours, update: c.update, waiting: map[uint64]call{1: {c.update, make(chan message, 1)}}}
			text := `{"id":1,"result":` + rows + `,"error":null}` + after
			if err := messages(strings.NewReader(text), c.session.take); err == nil {
				t.Fatal("reads on behind the end")
			}
			_, _ = c.rows.assemble()
		})
	})
}

// TestMessagesOfManyValues: a row with as many values as a message may have, or as long as one may
// be, costs no more than an input may, whatever their kind. A longer one is refused.
func TestMessagesOfManyValues(t *testing.T) {
	for name, shape := range map[string][3]string{
		"numbers":    {`{"Queue":{"x":{"new":{"dscp":[`, `1`, `]}}}}`},
		"a set":      {`{"Queue":{"x":{"new":{"dscp":["set",[`, `1`, `]]}}}}`},
		"a map":      {`{"Queue":{"x":{"new":{"other_config":["map",[`, `["",""]`, `]]}}}}`},
		"no pairs":   {`{"Queue":{"x":{"new":{"other_config":["map",[`, `[]`, `]]}}}}`},
		"references": {`{"Bridge":{"x":{"new":{"ports":["set",[`, `["uuid",""]`, `]]}}}}`},
		"strings":    {`{"Queue":{"x":{"new":{"other_config":["map",[["a","` + strings.Repeat("x", maxMessage/2), ``, `"]]]}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			unit := shape[1] + ","
			times := maxValues/strings.Count(unit, ",") - 8
			text := `{"id":null,"method":"update","params":[null,` + shape[0] + strings.Repeat(unit, times) + shape[1] + shape[2] + `]}`
			boundtest.Hold(t, func() {
				c := &Conn{changed: make(chan struct{}, 1)}
				c.session = &session{update: c.update}
				if err := messages(strings.NewReader(text), c.session.take); err == nil {
					t.Fatal("reads on behind the end")
				}
				_, _ = c.rows.assemble()
			})
		})
	}
}

// TestMessageOfLongRows: a message that is full of the longest rows takes no more memory than an
// input may, and a row that is longer ends the conversation.
func TestMessageOfLongRows(t *testing.T) {
	row := func(id byte, length int) string {
		const begun, ended = `{"new":{"other_config":["map",[["a","`, `"]]]}}`
		return `"` + string(id) + `":` + begun + strings.Repeat("x", length-len(begun)-len(ended)) + ended
	}
	update := func(rows ...string) string {
		return `{"id":null,"method":"update","params":[null,{"Queue":{` + strings.Join(rows, ",") + `}}]}`
	}
	var long []string
	for id := byte('a'); len(long) < maxMessage/maxRow-1; id++ {
		long = append(long, row(id, maxRow))
	}
	c := &Conn{changed: make(chan struct{}, 1)}
	c.session = &session{update: c.update}
	cost := boundtest.Measure(func() {
		if err := messages(strings.NewReader(update(long...)), c.session.take); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
	if cost.Bytes > bound.Memory || len(c.rows.Queue) != len(long) {
		t.Errorf("%d rows allocate %d MB, %d are the most", len(c.rows.Queue), cost.Bytes>>20, bound.Memory>>20)
	}
	if err := messages(strings.NewReader(update(row('a', maxRow+1))), c.session.take); err == nil || !strings.Contains(err.Error(), "1048577 bytes") {
		t.Error(err)
	}
}

// TestReferencesDoNotMultiply: one port with many interfaces, in many places of a bridge, is not
// taken apart for each of them. 52 KB stood for 4 million interfaces.
func TestReferencesDoNotMultiply(t *testing.T) {
	many := func(id string) string {
		return `["set",[` + strings.TrimSuffix(strings.Repeat(`["uuid","`+id+`"],`, 2000), ",") + `]]`
	}
	var rows tables
	err := rows.apply([]byte(`{"Bridge":{"b":{"new":{"name":"s1","ports":` + many("p") + `}}},"Port":{"p":{"new":{"interfaces":` +
		many("i") + `}}},"Interface":{"i":{"new":{"name":"up0"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	boundtest.Hold(t, func() { _, err = rows.assemble() })
	if err == nil || !strings.Contains(err.Error(), "more than 32768 rows") {
		t.Errorf("got %v", err)
	}
}

// TestTextOfRows: what was deleted and what was replaced counts no more.
func TestTextOfRows(t *testing.T) {
	var rows tables
	for _, step := range []struct {
		change string
		bytes  int
	}{
		{`{"Queue":{"1":{"new":{"dscp":46}}}}`, 1 + 19},
		{`{"QoS":{"1":{"new":{}}}}`, 1 + 19 + 1 + 10},
		{`{"Queue":{"1":{"old":{},"new":{}}}}`, 1 + 19 + 1 + 10},
		{`{"Queue":{"1":{"old":{},"new":null},"2":{"old":{}}}}`, 1 + 10},
		{`{"QoS":{"1":{"old":{}}}}`, 0},
	} {
		if err := rows.apply([]byte(step.change)); err != nil || rows.text != step.bytes {
			t.Errorf("after %s %d bytes count, %v; want %d", step.change, rows.text, err, step.bytes)
		}
	}
	if left := len(rows.sizes) + len(rows.Queue) + len(rows.QoS); left != 0 {
		t.Errorf("%d are left", left)
	}
}

// TestMessageOfManyRows: as many rows as are kept cost no more than an input may, wherever they
// stand in one message, and a message of more of them is refused at no greater cost.
func TestMessageOfManyRows(t *testing.T) {
	for rows, want := range map[int]string{maxRows - 10: "EOF", 100000: "more than 32768 rows"} {
		var b strings.Builder
		b.WriteString(`{"id":null,"method":"update","params":[null,{"Interface":{`)
		for i := range rows {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%08x":{"new":{"name":"%d"}}`, i, i)
		}
		b.WriteString(`}}]}`)
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			boundtest.Hold(t, func() {
				c := &Conn{changed: make(chan struct{}, 1)}
				c.session = &session{update: c.update}
				if err := messages(strings.NewReader(b.String()), c.session.take); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
				_, _ = c.rows.assemble()
			})
		})
	}
}
