// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/move"
	"weir/internal/cluster/node/incoming"
)

// TestEndedGuestsAreSmall: of a copy that has ended, a node remembers some hundred bytes,
// in memory and on its disk, however long its description was.
func TestEndedGuestsAreSmall(t *testing.T) {
	const (
		many     = 1000
		each     = 8 << 10  // bytes of memory and of files that are left for one
		describe = 64 << 10 // bytes of a description
	)
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	config, err := json.Marshal(map[string]string{"Env": strings.Repeat("x", describe)})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range many {
		o := orderOf(fmt.Sprintf("m-%d", i), "web", "a", "b")
		o.Container.Config = config
		m := c.hostileMove(a, b, o)
		m.want(http.StatusOK, "create", m.step(move.Create))
		m.want(http.StatusOK, "discard", m.step(move.Discard))
		m.client.CloseIdleConnections()
	}
	b.afterSweep(t)
	grown := heap() - before
	var bytes int64
	files := 0
	err = filepath.WalkDir(b.opts.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if folder := filepath.Base(filepath.Dir(path)); folder != "guests" && folder != "incoming" {
			return nil
		}
		info, err := e.Info()
		if err == nil {
			bytes += info.Size()
			files++
		}
		return err
	})
	t.Logf("after %d copies: %d bytes of memory and %d bytes in %d files", many, grown, bytes, files)
	if err != nil || grown > many*each || bytes > many*each {
		t.Errorf("more than %d bytes for each of %d copies that have ended: %d of memory, %d of files; %v", each, many, grown, bytes, err)
	}
}

// heap returns the memory in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// afterSweep is some minutes later.
func (n *testNode) afterSweep(t *testing.T) {
	t.Helper()
	n.incoming.Tidy(t.Context(), time.Now().Add(2*incoming.SweepAfter))
}
