// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"sync"

	"weir/internal/base/audit"
)

// RequestSlots bounds how many requests are under way, of each author and of all. The zero value of
// a field is no bound.
type RequestSlots struct {
	Each, All int

	mu    sync.Mutex
	users map[string]int
	all   int
}

// Enter counts a request until leave; ok is false if there is no room for it.
func (s *RequestSlots) Enter(who audit.Who) (leave func(), ok bool) {
	user := userKey(who)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Each > 0 && s.users[user] >= s.Each || s.All > 0 && s.all >= s.All {
		return nil, false
	}
	if s.users == nil {
		s.users = map[string]int{}
	}
	s.users[user]++
	s.all++
	return func() { s.leave(user) }, true
}

func (s *RequestSlots) leave(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.users[user]--; s.users[user] == 0 {
		delete(s.users, user)
	}
}

// userKey tells users apart.
func userKey(who audit.Who) string {
	if who.UID != nil {
		return fmt.Sprint("uid ", *who.UID)
	}
	return who.User
}
