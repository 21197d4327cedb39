// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// TestEndedMovesAreSmall: of a move that has ended the helper keeps some hundred bytes, in
// memory and in its folder, however long the description of its container was; and a week
// later nothing, also if it has not been restarted.
func TestEndedMovesAreSmall(t *testing.T) {
	const (
		many     = 200
		each     = 4 << 10  // bytes that are left of one
		describe = 64 << 10 // bytes of a description
	)
	b := newBed(t, "b")
	config, err := json.Marshal(map[string]string{"Env": strings.Repeat("x", describe)})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range many {
		o, part, ends := order(fmt.Sprintf("m-%d", i), "web", "a", "b"), b.receive, move.Discard
		if i%2 == 1 {
			o, part, ends = order(fmt.Sprintf("m-%d", i), "web", "b", "a"), b.send, move.Forget
		}
		o.Container.Config = config
		if err := b.admit(b.granted(o, b.now.Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		if err := part(o); err != nil {
			t.Fatal(err)
		}
		if _, err := b.agent.Do(t.Context(), ends, o); err != nil {
			t.Fatal(err)
		}
	}
	b.engine.forget()
	grown := heap() - before
	files, bytes := b.kept()
	t.Logf("after %d moves: %d bytes of memory and %d bytes in %d files", many, grown, bytes, files)
	if files != many || grown > many*each || bytes > many*each {
		t.Errorf("more than %d bytes for each of %d moves that have ended: %d of memory, %d in %d files", each, many, grown, bytes, files)
	}

	b.now = b.now.Add(keepMoves + time.Minute)
	b.manager = b.newManager(b.authority) // the former certificate has ended
	if err := b.admit(b.granted(order("m-last", "web", "a", "b"), b.now.Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	if files, _ := b.kept(); files != 1 {
		t.Errorf("a week later %d moves are in the folder, not the last one alone", files)
	}
}

func (b *bed) receive(o migrate.MoveSpec) error {
	_, err := b.agent.Receive(b.t.Context(), migrate.Part{Kind: migrate.PartVolume, Name: "data"}, o, strings.NewReader("x"))
	return err
}

func (b *bed) send(o migrate.MoveSpec) error {
	_, err := b.agent.Send(b.t.Context(), migrate.Part{Kind: migrate.PartVolume, Name: "data"}, o, io.Discard)
	return err
}

// forget drops what the engine noted of its calls.
func (e *fakeEngine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.order = nil, migrate.MoveSpec{}
}

// kept counts the files of moves and their bytes.
func (b *bed) kept() (files int, bytes int64) {
	b.t.Helper()
	for _, file := range must[[]string](b.t)(filepath.Glob(filepath.Join(b.dir, "own", movesDir, "*"))) {
		files, bytes = files+1, bytes+must[os.FileInfo](b.t)(os.Stat(file)).Size()
	}
	return files, bytes
}

// heap returns the memory in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
