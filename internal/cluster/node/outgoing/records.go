// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/core/wire"
)

// Record is the file of a move or of another order: what came of it, the order itself,
// and the manager's grant.
type Record struct {
	Order  []byte            `json:"order,omitempty"`
	Grant  []byte            `json:"grant,omitempty"` // what the target asks for once something is changed there
	Report *wire.MoveReport  `json:"report,omitempty"`
	Policy *wire.ApplyReport `json:"policy,omitempty"`
}

// Records is the folder of records, one file for each order. An order that comes again is
// answered out of its file.
type Records struct{ Dir string }

// file returns the path of an order's file. The manager chose the order's id, so it
// is cleaned.
func (d Records) file(id string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
	return filepath.Join(d.Dir, clean+".json")
}

// Load returns the record of an order.
func (d Records) Load(id string) (Record, bool) {
	var k Record
	text, err := safepath.ReadFile(d.file(id))
	return k, err == nil && json.Unmarshal(text, &k) == nil
}

// Save writes the record of an order.
func (d Records) Save(id string, k Record) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(d.file(id), text, 0o600)
}

// expire removes the records that are older than keepMoves: no order asks about them any
// more.
func (d Records) expire(now time.Time) error {
	files, err := filepath.Glob(filepath.Join(d.Dir, "*.json"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && now.Sub(info.ModTime()) > keepMoves {
			os.Remove(file)
		}
	}
	return err
}
