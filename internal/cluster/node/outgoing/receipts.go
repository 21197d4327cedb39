// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"weir/internal/base/statefile"
	"weir/internal/core/wire"
)

// Receipt is the file of a move or of another order: what came of it, the order itself,
// and the manager's grant.
type Receipt struct {
	Order  []byte            `json:"order,omitempty"`
	Grant  []byte            `json:"grant,omitempty"` // what the target asks for once something is changed there
	Report *wire.MoveReport  `json:"report,omitempty"`
	Policy *wire.ApplyReport `json:"policy,omitempty"`
}

// Receipts has a file for each order. An order that comes again is answered out of it.
type Receipts struct{ files statefile.Folder[Receipt] }

// openReceipts returns the receipts of a folder, and those that former processes left in the last
// days.
func openReceipts(dir string, now time.Time, log *slog.Logger) (d Receipts, former map[string]*Receipt, err error) {
	if d.files, former, err = statefile.Open[Receipt](dir, log); err != nil {
		return d, nil, err
	}
	for id := range former {
		if info, err := os.Stat(d.files.File(id)); err == nil && now.Sub(info.ModTime()) > keepMoves {
			delete(former, id)
			_ = d.files.Remove(id) // else the next process does: no order asks about it any more
		}
	}
	return d, former, nil
}

// clean returns the key of an order. The manager chose the order's id.
func clean(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, id)
}

// Load returns the record of an order. One that is damaged is known, and says nothing.
func (d Receipts) Load(id string) (Receipt, bool) { return d.files.Get(clean(id)) }

// Save writes the record of an order.
func (d Receipts) Save(id string, k Receipt) error { return d.files.Put(clean(id), &k) }
