// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"weir/internal/base/statefile"
	"weir/internal/core/wire"
)

// letter is a message that the bus has not taken yet.
type letter struct {
	Seq     uint64       `json:"seq"`
	Subject wire.Subject `json:"subject"`
	ID      string       `json:"id"`
	Data    []byte       `json:"data"`
	kept    bool         // in a file
}

func (l letter) key() string { return fmt.Sprintf("%020d", l.Seq) }

// outbox holds what was said, in order, until the bus has it. What must not be lost is
// in files too; of the rest only the newest are kept while the bus is away.
type outbox struct {
	files *statefile.Folder[letter] // nil = none
	many  int                       // letters without a file that are kept

	mu    sync.Mutex
	list  []letter
	last  uint64
	added chan struct{}
}

// openOutbox takes up what a former process could not send. dir "" = no files.
func openOutbox(dir string, many int, log *slog.Logger) (*outbox, error) {
	o := &outbox{many: many, added: make(chan struct{}, 1), last: uint64(time.Now().UnixNano())}
	if dir == "" {
		return o, nil
	}
	files, all, err := statefile.Open[letter](dir, log)
	if err != nil {
		return nil, err
	}
	o.files = &files
	for _, key := range slices.Sorted(maps.Keys(all)) {
		l := all[key]
		l.kept = true
		o.list = append(o.list, *l)
		o.last = max(o.last, l.Seq)
	}
	o.poke()
	return o, nil
}

func (o *outbox) poke() {
	select {
	case o.added <- struct{}{}:
	default:
	}
}

// add puts a letter at the end; keep writes it to the disk first.
func (o *outbox) add(subject wire.Subject, id string, data []byte, keep bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	l := letter{Seq: o.last, Subject: subject, ID: id, Data: data}
	if l.kept = keep && o.files != nil; l.kept {
		if err := o.files.Put(l.key(), &l); err != nil {
			return fmt.Errorf("report cannot be kept: %w", err)
		}
	}
	o.list = append(o.list, l)
	o.thin()
	o.poke()
	return nil
}

// thin drops the oldest of those without a file if there are too many. The first may
// be on its way just now and stays.
func (o *outbox) thin() {
	loose := 0
	for _, l := range o.list {
		if !l.kept {
			loose++
		}
	}
	for i := 1; i < len(o.list) && loose > o.many; {
		if o.list[i].kept {
			i++
			continue
		}
		o.list = append(o.list[:i], o.list[i+1:]...)
		loose--
	}
}

// run hands letters to publish, one after the other, until ctx ends.
func (o *outbox) run(ctx context.Context, publish func(context.Context, letter) error) {
	for {
		o.mu.Lock()
		var next letter
		waits := len(o.list) > 0
		if waits {
			next = o.list[0]
		}
		o.mu.Unlock()
		if !waits {
			select {
			case <-ctx.Done():
				return
			case <-o.added:
			}
			continue
		}
		if publish(ctx, next) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			continue
		}
		o.mu.Lock()
		if len(o.list) > 0 && o.list[0].Seq == next.Seq {
			o.list = o.list[1:]
		}
		o.mu.Unlock()
		if next.kept {
			_ = o.files.Remove(next.key()) // else it is sent twice, which does no harm
		}
	}
}
