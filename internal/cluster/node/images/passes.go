// SPDX-License-Identifier: Apache-2.0

package images

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/registry/access"
)

// passLife is how long a pass stays valid after it was last handed out: longer than
// any push or pull.
const passLife = 2 * time.Hour

// passes has the logins that this node's engine shows to the agent's registry. An engine
// speaks to a registry over TCP, where any process of the machine can knock; so each move
// gets a user and a password of its own, which the agent hands to the engine over the
// engine's socket with each push and pull. They are good for the images of that move, in
// the direction in which this node is part of it, and for as long as this process lives.
type passes struct {
	mu   sync.Mutex
	list map[string]*pass // by user
}

type pass struct {
	right    access.Right
	password string
	hash     [sha256.Size]byte
	until    time.Time
	pulls    *access.Allowance // nil: it pulls nothing
}

// issue returns the login for a move, made when it is asked for first.
func (p *passes) issue(right access.Right, now time.Time) migrate.Login {
	user := right.Move + ".target"
	if right.Source {
		user = right.Move + ".source"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list == nil {
		p.list = map[string]*pass{}
	}
	for other, one := range p.list {
		if now.After(one.until) {
			delete(p.list, other)
		}
	}
	one := p.list[user]
	if one == nil {
		one = &pass{right: right, password: rand.Text()}
		one.hash = sha256.Sum256([]byte(one.password))
		p.list[user] = one
	}
	one.until = now.Add(passLife)
	return migrate.Login{User: user, Password: one.password}
}

// allow bounds the layers that are pulled with a login, in bytes once they are unpacked.
func (p *passes) allow(l migrate.Login, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.list[l.User]; one != nil && one.pulls == nil {
		one.pulls = access.NewAllowance(bytes)
	}
}

// allowance returns the allowance of the pass that a request shows, nil if it has none.
func (p *passes) allowance(q *http.Request) *access.Allowance {
	user, _, _ := q.BasicAuth()
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.list[user]; one != nil {
		return one.pulls
	}
	return nil
}

// revoke ends the pass of a login.
func (p *passes) revoke(l migrate.Login) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.list, l.User)
}

// check returns what a request may do by the pass that it shows; ok is false if it shows none.
// How long it takes says nothing of a password.
func (p *passes) check(q *http.Request, now time.Time) (right access.Right, ok bool) {
	user, password, given := q.BasicAuth()
	hash := sha256.Sum256([]byte(password))
	p.mu.Lock()
	defer p.mu.Unlock()
	one, known := p.list[user]
	if !known {
		one = &pass{} // no password has this hash
	}
	same := subtle.ConstantTimeCompare(hash[:], one.hash[:]) == 1
	return one.right, given && known && same && now.Before(one.until)
}
