// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// schema has the tables and columns that this package needs.
const schema = `{"name":"Open_vSwitch","version":"8.0.0","tables":{
"Bridge":{"columns":{"name":{"type":"string"},"ports":{"type":{"key":{"type":"uuid","refTable":"Port"},"min":0,"max":"unlimited"}}},"isRoot":true},
"Port":{"columns":{"name":{"type":"string"},"interfaces":{"type":{"key":{"type":"uuid","refTable":"Interface"},"min":1,"max":"unlimited"}},"qos":{"type":{"key":{"type":"uuid","refTable":"QoS"},"min":0,"max":1}}}},
"Interface":{"columns":{"name":{"type":"string"},"type":{"type":"string"}}},
"QoS":{"columns":{"type":{"type":"string"},"other_config":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},"external_ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},"queues":{"type":{"key":"integer","value":{"type":"uuid","refTable":"Queue"},"min":0,"max":"unlimited"}}},"isRoot":true},
"Queue":{"columns":{"dscp":{"type":{"key":"integer","min":0,"max":1}},"other_config":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},"external_ids":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}}},"isRoot":true}}}`

// serve starts a database whose answers a test sets, and returns its address: first the
// rows, and then whatever after writes.
func serve(t testing.TB, rows string, after func(w io.Writer, cookie json.RawMessage)) string {
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

func answer(conn net.Conn, rows string, after func(io.Writer, json.RawMessage)) {
	defer conn.Close()
	in := json.NewDecoder(conn)
	for {
		var request struct {
			ID     json.RawMessage   `json:"id"`
			Method string            `json:"method"`
			Params []json.RawMessage `json:"params"`
		}
		if in.Decode(&request) != nil {
			return
		}
		result, watching := "{}", false
		switch request.Method {
		case "list_dbs":
			result = `["Open_vSwitch"]`
		case "get_schema":
			result = schema
		case "monitor", "monitor_cond":
			result, watching = rows, true
		case "monitor_cond_since":
			result, watching = `[false,"00000000-0000-0000-0000-000000000000",`+rows+`]`, true
		case "echo":
			result = "[]"
		}
		if _, err := fmt.Fprintf(conn, `{"id":%s,"result":%s,"error":null}`, request.ID, result); err != nil {
			return
		}
		if watching && after != nil {
			after(conn, request.Params[1])
		}
	}
}

const oneBridge = `{"Bridge":{"11111111-1111-1111-1111-111111111111":{"initial":{"name":"s1"}}}}`

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
	if s, err := c.Snapshot(t.Context()); err != nil || len(s.Bridges) != 1 || s.Bridges[0].Name != "s1" {
		t.Errorf("an honest one: %+v, %v", s, err)
	}
	c.Close()
	repeat := func(head, again string) func(io.Writer, json.RawMessage) {
		return func(w io.Writer, _ json.RawMessage) {
			_, err := io.WriteString(w, head)
			for block := strings.Repeat(again, 64<<10/len(again)+1); err == nil; {
				_, err = io.WriteString(w, block)
			}
		}
	}
	rows := func(w io.Writer, cookie json.RawMessage) {
		for n := 0; ; n += 1000 {
			var b bytes.Buffer
			fmt.Fprintf(&b, `{"id":null,"method":"update3","params":[%s,"00000000-0000-0000-0000-000000000000",{"Queue":{`, cookie)
			for i := n; i < n+1000; i++ {
				if i > n {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `"%08x-1111-1111-1111-111111111111":{"insert":{}}`, i)
			}
			b.WriteString(`}}]}`)
			if _, err := w.Write(b.Bytes()); err != nil {
				return
			}
		}
	}
	for _, test := range []struct {
		name, want string
		after      func(io.Writer, json.RawMessage)
	}{
		{"a string without end", "message of more than 8 MB", repeat(`{"id":null,"method":"update3","params":["`, "x")},
		{"blanks without end", "message of more than 8 MB", repeat("", " ")},
		{"numbers without end", "message of more than 8 MB", repeat(`{"id":null,"method":"echo","params":[1`, ",1")},
		{"levels without end", "more than 64 levels", repeat("", "[")},
		{"neither request nor answer", "neither a request nor an answer", func(w io.Writer, _ json.RawMessage) { _, _ = io.WriteString(w, `{"id":null,"params":[]}`) }},
		{"answer with a name for an id", "neither a request nor an answer", func(w io.Writer, _ json.RawMessage) { _, _ = io.WriteString(w, `{"id":"x","result":7}`) }},
		{"no message", "no message of a database", func(w io.Writer, _ json.RawMessage) { _, _ = io.WriteString(w, `["hello"]`) }},
		{"rows without end", "more than 100000 rows", rows},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := connect(t, serve(t, oneBridge, test.after), 60*time.Second)
			if err == nil {
				select {
				case <-c.Lost():
				case <-time.After(60 * time.Second):
					t.Fatal("is read for a minute")
				}
				_, err = c.Snapshot(t.Context())
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

func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":["b\"]",{}]} {"method":"echo","id":"x"}`))
	f.Add([]byte(`{"id":null}`))
	boundtest.Seeds[[]byte](f, bound.Database, `{"id":1,"result":`)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			var out bytes.Buffer
			if err := pass(&out, bytes.NewReader(data)); err == nil || !bytes.HasPrefix(data, out.Bytes()) {
				t.Fatalf("%v, %q of %q", err, out.Bytes(), data)
			}
			// The relay passes on whole messages that libovsdb's reader can take.
			for in := json.NewDecoder(&out); ; {
				var m map[string]json.RawMessage
				err := in.Decode(&m)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatalf("%v in what was passed on of %q", err, data)
				}
			}
		})
	})
}

// FuzzDatabase: whatever a database answers and says, the client ends in order.
func FuzzDatabase(f *testing.F) {
	f.Add(oneBridge, `{"id":null,"method":"update3","params":[COOKIE,"x",{"Bridge":{"11111111-1111-1111-1111-111111111111":{"modify":{"ports":["set",[["uuid","x"]]]}}}}]}`)
	f.Add(`{"QoS":{"11111111-1111-1111-1111-111111111111":{"initial":{"queues":["map",[[1,["uuid","x"]]]]}}}}`, `{"id":"x","result":7}`)
	f.Add(`{"Port":{"11111111-1111-1111-1111-111111111111":{"initial":{"qos":["set",[]],"name":7}}}}`, `{"id":null,"method":"update","params":[null,{"Port":{"x":{"old":{},"new":{}}}}]}`)
	f.Add(`{"Queue":{"x":{"modify":{"dscp":["set",[1,2]]}}}}`, `{"id":null,"method":"echo","params":{}}`)
	for _, text := range boundtest.Texts(bound.Body) {
		f.Add(text, `{"id":null,"method":"update3","params":[`+text)
	}
	f.Fuzz(func(t *testing.T, rows, after string) {
		boundtest.Hold(t, func() {
			c, err := connect(t, serve(t, rows, func(w io.Writer, cookie json.RawMessage) {
				_, _ = io.WriteString(w, strings.Replace(after, "COOKIE", string(cookie), 1))
			}), 300*time.Millisecond)
			if err != nil {
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, _ = c.Snapshot(ctx)
			_ = c.Alive(ctx)
			c.Close()
		})
	})
}
