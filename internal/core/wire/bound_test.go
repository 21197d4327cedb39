// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// TestHostileMessages: reading a message costs what one input may, and what is said of it is short,
// however long its lists, names and times are.
func TestHostileMessages(t *testing.T) {
	const size = bound.Message - 1000
	const profile = `{"v":1,"node":"a","time":"2026-03-01T12:00:00Z",`
	// Bytes that are no UTF-8 take eight times as much in the error about a time.
	long := func(before, unit, after string) string {
		return before + strings.Repeat(unit, (size-len(before)-len(after))/len(unit)) + after
	}
	for _, tt := range []struct {
		name  string
		into  Message
		texts []string
	}{
		{"moves of a heartbeat", &Heartbeat{}, boundtest.Lists(size, `{"node":"a","moves":[`)},
		{"moves of a heartbeat, again and again", &Heartbeat{}, []string{long(`{"node":"a"`, `,"moves":[`+strings.Repeat("0,", 1900)+`0]`, "}")}},
		{"engines of a heartbeat", &Heartbeat{}, boundtest.Lists(size, `{"node":"a","engines":[`)},
		{"containers of a profile", &Profile{}, boundtest.Lists(size, profile+`"containers":[`)},
		{"nodes of a profile", &Profile{}, boundtest.Lists(size, profile+`"accept_from":[`)},
		{"parts of a manifest", &Manifest{}, boundtest.Lists(size, `{"parts":[`)},
		{"node", &Heartbeat{}, []string{long(`{"node":"`, "\xff", `"}`)}},
		{"time", &Heartbeat{}, []string{long(`{"node":"a","started":"`, "\xff", `"}`)}},
		{"number", &Heartbeat{}, []string{long(`{"node":"a","seq":`, "9", `}`)}},
		{"move", &Manifest{}, []string{long(`{"move":"`, "\xff", `"}`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, body := range tt.texts {
				data, err := json.Marshal(Envelope{V: Version, Kind: tt.into.Kind(), From: "a", Subject: "H.a", ID: "x", At: time.Now()})
				if err != nil {
					t.Fatal(err)
				}
				data = []byte(strings.Replace(string(data), `"body":null`, `"body":`+body, 1))
				boundtest.Hold(t, func() {
					e, err := Open(data)
					if err == nil {
						err = e.Read(tt.into)
					}
					if err == nil || len(err.Error()) > MaxText+200 {
						t.Errorf("%.60s: %.100v", body, err)
					}
				})
			}
		})
	}
}
