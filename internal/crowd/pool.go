// SPDX-License-Identifier: Apache-2.0

package crowd

import "slices"

// pool holds connections by party, those of each party in the order in which they came.
type pool struct {
	each, all int // the most of one party and of all; each 0 = as many as all
	n         int
	parties   map[string][]*Conn
}

// add puts a connection into the pool, and returns the one that makes room for it: the oldest
// of its party, or of the party with the most connections.
func (p *pool) add(c *Conn) (out *Conn) {
	if p.parties == nil {
		p.parties = map[string][]*Conn{}
	}
	mine := append(p.parties[c.party], c)
	p.parties[c.party] = mine
	p.n++
	switch {
	case p.each > 0 && len(mine) > p.each:
		return mine[0]
	case p.n > p.all:
		return p.largest(mine)[0]
	}
	return nil
}

// largest returns the connections of the party with the most of them: of several, the party
// whose oldest connection came first.
func (p *pool) largest(most []*Conn) []*Conn {
	for _, list := range p.parties {
		if len(list) > len(most) || len(list) == len(most) && list[0].number < most[0].number {
			most = list
		}
	}
	return most
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
