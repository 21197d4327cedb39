// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"weir/internal/base/statefile"
	"weir/internal/core/wire"
)

// roster is the list of members as this node knows it.
type roster struct {
	file string

	asking sync.Mutex // one request at a time

	forPeers sync.Mutex
	asked    time.Time // when a peer was the reason last
	answered bool      // whether the manager answered then

	mu        sync.Mutex
	list      wire.Members
	confirmed time.Time // by this node's clock: when the request began that the manager answered last
	departed  map[string]departed
}

// departed is a member that is not on the list any more.
type departed struct {
	Key   ed25519.PublicKey `json:"key"`
	Since time.Time         `json:"since"`
}

// keptRoster is the file of a roster. Only its user can write it; the signature was
// checked before it was written.
type keptRoster struct {
	Members  wire.Members        `json:"members"`
	Departed map[string]departed `json:"departed,omitempty"`
}

// openRoster reads what a former process knew, which may be nothing.
func openRoster(file string) (*roster, error) {
	r := &roster{file: file, departed: map[string]departed{}}
	var k keptRoster
	if err := statefile.Read(file, &k); err != nil {
		return nil, fmt.Errorf("list of members: %w; if it is damaged, remove it: the manager has it", err)
	}
	r.list = k.Members
	if k.Departed != nil {
		r.departed = k.Departed
	}
	return r, nil
}

// sequence returns the sequence number of the list, 0 if there is none.
func (r *roster) sequence() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.Sequence
}

// key returns a member's key, nil if the node is no member.
func (r *roster) key(node string) ed25519.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.KeyOf(node)
}

// keyOfTarget returns the key of a member, or of one that was a member not long ago.
func (r *roster) keyOfTarget(node string) ed25519.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	if key := r.list.KeyOf(node); key != nil {
		return key
	}
	return r.departed[node].Key
}

// managers returns the keys whose signatures count as the manager's.
func (r *roster) managers() []ed25519.PublicKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list.Managers)
}

// age returns how long ago the manager confirmed the list.
func (r *roster) age(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.confirmed.IsZero() {
		return 1<<63 - 1
	}
	return now.Sub(r.confirmed)
}

// take puts a newer list in the place of the one that was, on the disk first.
func (r *roster) take(list wire.Members, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list.Sequence < r.list.Sequence {
		return fmt.Errorf("the list of members has sequence %d, and %d was here", list.Sequence, r.list.Sequence)
	}
	gone := maps.Clone(r.departed)
	for _, m := range r.list.Members {
		if list.KeyOf(m.Name) == nil {
			gone[m.Name] = departed{m.Key, now.UTC()}
		}
	}
	maps.DeleteFunc(gone, func(name string, d departed) bool {
		return list.KeyOf(name) != nil || now.Sub(d.Since) > keepDeparted
	})
	if err := statefile.Write(r.file, keptRoster{list, gone}); err != nil {
		return fmt.Errorf("list of members cannot be kept: %w", err)
	}
	r.list, r.departed = list, gone
	return nil
}

func (r *roster) confirm(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirmed = at
}

func rosterFile(dir string) string { return filepath.Join(dir, "members.json") }

// Sequence returns the sequence number of the list of members, 0 if there is none yet.
func (m *Membership) Sequence() uint64 { return m.roster.sequence() }

// Age returns how long ago the manager confirmed the list of members.
func (m *Membership) Age() time.Duration { return m.roster.age(m.clock.Now()) }
