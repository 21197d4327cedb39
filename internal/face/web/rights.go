// SPDX-License-Identifier: Apache-2.0

package web

import (
	"os/user"
	"slices"
	"strconv"
	"sync"
	"time"
)

// rightsAge is how old what is known of a user's groups may be: a session ends at most so
// long after its user has left the group that it is by.
const rightsAge = 10 * time.Second

// rights says which users are in which groups.
type rights struct {
	lookup func(uid uint32, group string) bool // tests have another

	mu    sync.Mutex
	known map[membership]right
}

type membership struct {
	uid   uint32
	group string
}

type right struct {
	has bool
	at  time.Time
}

// NewUser returns the person behind a session, who has a role by a group of this host. Where
// the host's files do not say so (the group comes with a login, or the user is root), nothing
// can be looked up later, and the session lasts to its end.
func (s *Sessions) NewUser(u User, group string) User {
	if group != "" && u.UID != nil && s.rights.lookup(*u.UID, group) {
		u.Group = group
	}
	return u
}

// holds reports whether a user is still in the group that the session is by.
func (r *rights) holds(u User, now time.Time) bool {
	if u.Group == "" || u.UID == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := membership{*u.UID, u.Group}
	if known, ok := r.known[key]; ok && now.Sub(known.at) < rightsAge {
		return known.has
	}
	if r.known == nil || len(r.known) > maxUsers {
		r.known = map[membership]right{}
	}
	has := r.lookup(*u.UID, u.Group)
	r.known[key] = right{has, now}
	return has
}

// maxUsers bounds for how many users it is kept what their groups are.
const maxUsers = 1000

// isMember asks the host whether a user is in a group.
func isMember(uid uint32, group string) bool {
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return false
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return false
	}
	ids, err := u.GroupIds()
	return err == nil && slices.Contains(ids, g.Gid)
}
