// SPDX-License-Identifier: Apache-2.0

package optimize

// Lack says what node n is short of for container c, as things are now; ok is true
// if it has room. c may be on n already.
func (p *Problem) Lack(c, n int) (l Lack, ok bool) {
	s := newState(p, p.Initial())
	l = s.lack(c, n, -1)
	return l, l.none()
}
