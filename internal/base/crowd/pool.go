// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"cmp"
	"slices"
)

// pool holds connections by party, those of each party in the order in which they came.
type pool struct {
	each, all int // the most of one party and of all; each 0 = as many as all
	n         int
	parties   map[string][]*Conn
}

// add puts a connection into the pool, and returns the one that makes room for it: of its
// party, or of the party with the most connections. Of those it is the one for whose client the
// server has waited the longest; where it waits for none, the oldest.
func (p *pool) add(c *Conn) (out *Conn) {
	if p.parties == nil {
		p.parties = map[string][]*Conn{}
	}
	mine := append(p.parties[c.party], c)
	p.parties[c.party] = mine
	p.n++
	switch {
	case p.each > 0 && len(mine) > p.each:
		return slowest(mine[:len(mine)-1])
	case p.n > p.all:
		return slowest(slices.DeleteFunc(p.largest(), func(other *Conn) bool { return other == c }))
	}
	return nil
}

// most returns how many connections the party with the most of them has.
func (p *pool) most() (n int) {
	for _, list := range p.parties {
		n = max(n, len(list))
	}
	return n
}

// largest returns the connections of the party with the most of them, or of all that have as many.
func (p *pool) largest() (all []*Conn) {
	n := p.most()
	for _, list := range p.parties {
		if len(list) == n {
			all = append(all, list...)
		}
	}
	return all
}

// slowest returns the connection that has to make room, of some.
func slowest(list []*Conn) *Conn {
	return slices.MinFunc(list, func(a, b *Conn) int {
		x, y := a.waits.Load(), b.waits.Load()
		switch {
		case (x == 0) != (y == 0): // one of them has something under way
			return cmp.Compare(y, x)
		case x != y:
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a.number, b.number)
	})
}

// remove takes a connection out of the pool, if it is there.
func (p *pool) remove(c *Conn) {
	list := p.parties[c.party]
	i := slices.Index(list, c)
	if i < 0 {
		return
	}
	p.n--
	if len(list) == 1 {
		delete(p.parties, c.party)
		return
	}
	p.parties[c.party] = slices.Delete(list, i, i+1)
}
