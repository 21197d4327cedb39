// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBackwards: the lines of a file are those that a reader from its beginning finds, whatever
// their lengths and wherever the blocks end.
func TestBackwards(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		var text bytes.Buffer
		for text.Len() < rng.IntN(3*blockSize)+1 {
			n := rng.IntN(400)
			switch rng.IntN(40) {
			case 0:
				n = rng.IntN(2*MaxLine + 2)
			case 1:
				n = rng.IntN(2 * blockSize)
			case 2:
				n = 0
			}
			text.WriteString(strings.Repeat(string(rune('a'+rng.IntN(26))), n))
			text.WriteByte('\n')
		}
		if round%2 == 0 {
			text.WriteString("the last one has no end")
		}
		var want, got []string
		for _, line := range strings.Split(text.String(), "\n") {
			if line != "" && len(line) <= 2*MaxLine {
				want = append(want, line)
			}
		}
		err := backwards(t.Context(), bytes.NewReader(text.Bytes()), int64(text.Len()), func(line []byte) bool {
			got = append(got, string(line))
			return true
		})
		slices.Reverse(got)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("round %d: %v, %d lines, want %d", round, err, len(got), len(want))
		}
	}
}

// fullLog makes a log as large as it can be, of lines about 100 objects.
func fullLog(t *testing.T) *Log {
	t.Helper()
	l := New(filepath.Join(t.TempDir(), "audit.log"), slog.New(slog.DiscardHandler))
	e := Entry{Time: time.Now().UTC(), Who: Who{Via: ViaSocket, User: "root"}, Action: "set-policy", Result: Done, Change: map[string]string{"min": "20mbit"}, Reason: strings.Repeat("why ", 20)}
	for n := range keepOld + 1 {
		var text bytes.Buffer
		for i := 0; text.Len() < maxSize-MaxLine; i++ {
			e.Object = fmt.Sprint("workload-", i%100)
			text.Write(e.line())
		}
		if err := os.WriteFile(l.older(n), text.Bytes(), fileMode); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestReadingIsBounded: the newest entries of a log of 144 MB are there at once; a query that
// has to read all of it is fast too, and ends with its request.
func TestReadingIsBounded(t *testing.T) {
	l := fullLog(t)
	for what, c := range map[string]struct {
		q    Query
		want int
		most time.Duration
	}{
		"the newest":         {Query{Limit: 1000}, 1000, 250 * time.Millisecond},
		"of one object":      {Query{Object: "workload-7", Limit: 1000}, 1000, 500 * time.Millisecond},
		"of no object":       {Query{Object: "zzz"}, 0, 2 * time.Second},
		"since a moment ago": {Query{Since: time.Now().Add(time.Hour)}, 0, 2 * time.Second},
	} {
		begun := time.Now()
		list, err := l.Read(t.Context(), c.q)
		took := time.Since(begun)
		t.Logf("%s: %d entries in %v", what, len(list), took)
		if err != nil || len(list) != c.want || took > c.most {
			t.Errorf("%s: %d entries, %v, in %v", what, len(list), err, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Read(ctx, Query{Object: "zzz"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has gone: %v", err)
	}
}
