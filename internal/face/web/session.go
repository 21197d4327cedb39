// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/core/refusal"
)

// How long a link can be opened, and how long the session that it begins lasts.
const (
	linkTime    = 2 * time.Minute
	SessionTime = 12 * time.Hour
)

// How many links wait to be opened, of one user and of all with a role: the oldest makes room.
const (
	maxLinks    = 8
	maxAllLinks = 256
)

// keyBytes is the length of the key that signs tokens.
const keyBytes = 32

// User is the person behind a session: who asked for its link, over the socket.
type User struct {
	Role  string  `json:"role"` // view or change, as rest.Role
	UID   *uint32 `json:"uid,omitempty"`
	Name  string  `json:"user,omitempty"`
	Login string  `json:"login,omitempty"` // the user who logged in, if that is another
	Group string  `json:"group,omitempty"` // that gives the user the role, "" = that cannot be looked up
}

// class returns whose places on the page the user's connections have: users who may only look
// take none of those who may change something. What a connection of a proxy carries is of both.
func (u User) class() string {
	if u.party() == "" {
		return "proxy"
	}
	return u.Role
}

// party names the user as one of many, "" = several: on a connection of a proxy there are
// requests of all its users.
func (u User) party() string {
	switch {
	case strings.HasPrefix(u.Name, proxied):
		return ""
	case u.UID != nil:
		return "uid " + strconv.FormatUint(uint64(*u.UID), 10)
	}
	return u.Name
}

// Session is what a token says.
type Session struct {
	User
	Ends time.Time `json:"ends"`
}

// Sessions makes links and tokens. A token is signed and not kept, so it outlives a restart
// of the program; a link does not. It is safe for use by several goroutines.
type Sessions struct {
	file string
	of   Program
	now  func() time.Time

	rights rights

	mu    sync.Mutex
	key   []byte
	links []link        // the oldest first
	ended chan struct{} // closed by EndAll
}

// link is a link that was not opened yet. Only its code's hash is kept.
type link struct {
	code [sha256.Size]byte
	user User
	ends time.Time
}

// NewSessions reads the key in file, and makes one if there is none.
func NewSessions(file string, of Program) (*Sessions, error) {
	s := &Sessions{file: file, of: of, now: time.Now, rights: rights{lookup: isMember}, ended: make(chan struct{})}
	key, err := safepath.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, s.EndAll()
	case err != nil:
		return nil, fmt.Errorf("key of the page's sessions: %w", err)
	case len(key) != keyBytes:
		return nil, fmt.Errorf("key of the page's sessions %s: has %d bytes and not %d; remove it, the %s makes another", file, len(key), keyBytes, of.Name)
	}
	s.key = key
	return s, nil
}

// EndAll ends all sessions and links: it replaces the key, and ends the requests that are
// under way.
func (s *Sessions) EndAll() error {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := atomicfile.Write(s.file, key, 0o600); err != nil {
		return fmt.Errorf("key of the page's sessions: %w", err)
	}
	close(s.ended)
	s.key, s.links, s.ended = key, nil, make(chan struct{})
	return nil
}

// Link returns a code that Open takes once, until ends.
func (s *Sessions) Link(u User) (code string, ends time.Time) {
	code = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(u)
	ends = s.now().Add(linkTime)
	s.links = append(s.links, link{sha256.Sum256([]byte(code)), u, ends})
	return code, ends
}

// makeRoom drops links that have expired, and the oldest of a user with too many, or of all
// with the user's role. The lock is held.
func (s *Sessions) makeRoom(u User) {
	s.links = slices.DeleteFunc(s.links, func(l link) bool { return s.now().After(l.ends) })
	alike := func(l link) bool { return l.user.Role == u.Role }
	mine := func(l link) bool { return alike(l) && l.user.party() == u.party() }
	for _, bound := range []struct {
		counts func(link) bool
		most   int
	}{{mine, maxLinks}, {alike, maxAllLinks}} {
		n := 0
		for _, l := range s.links {
			if bound.counts(l) {
				n++
			}
		}
		if n >= bound.most {
			i := slices.IndexFunc(s.links, bound.counts)
			s.links = slices.Delete(s.links, i, i+1)
		}
	}
}

// Open exchanges the code of a link for a token.
func (s *Sessions) Open(code string) (token string, session Session, no *refusal.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := sha256.Sum256([]byte(code))
	for i, l := range s.links {
		if l.code != sum {
			continue
		}
		s.links = append(s.links[:i:i], s.links[i+1:]...)
		if s.now().After(l.ends) {
			return "", Session{}, s.of.denied("the link has expired")
		}
		session = Session{l.user, s.now().Add(SessionTime).UTC().Truncate(time.Second)}
		return s.sign(session), session, nil
	}
	return "", Session{}, s.of.denied("the link is not known: it was opened before, or the " + s.of.Name + " was restarted since")
}

// sign returns a session as a token: what it says, and the key's signature over that.
func (s *Sessions) sign(session Session) string {
	text, _ := json.Marshal(session) // of texts and numbers, which cannot fail
	return base64.RawURLEncoding.EncodeToString(append(s.mac(text), text...))
}

func (s *Sessions) mac(text []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(text)
	return h.Sum(nil)
}

// Check returns the session of a token.
func (s *Sessions) Check(token string) (Session, *refusal.Error) {
	session, _, no := s.check(token)
	return session, no
}

// check returns the session of a token, and a channel that is closed when all sessions end.
func (s *Sessions) check(token string) (session Session, ended <-chan struct{}, no *refusal.Error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	s.mu.Lock()
	ours := err == nil && len(raw) >= sha256.Size && hmac.Equal(raw[:sha256.Size], s.mac(raw[sha256.Size:]))
	ended = s.ended
	s.mu.Unlock()
	if !ours {
		return session, nil, s.of.denied("the token is not one of this " + s.of.Name + "'s")
	}
	if err := json.NewDecoder(bytes.NewReader(raw[sha256.Size:])).Decode(&session); err != nil {
		return Session{}, nil, s.of.denied("the token cannot be read")
	}
	now := s.now()
	if now.After(session.Ends) {
		return Session{}, nil, s.of.denied("the session has expired")
	}
	if !s.rights.holds(session.User, now) {
		return Session{}, nil, s.of.denied("the user is not in group " + session.Group + " any more")
	}
	return session, ended, nil
}

// during returns a context for a request of a session, which ends with the session: with all,
// in its time, or when its user has no right to it any more. done has to be called.
func (s *Sessions) during(ctx context.Context, session Session, ended <-chan struct{}) (within context.Context, done func()) {
	ctx, cancel := context.WithTimeout(ctx, session.Ends.Sub(s.now()))
	go func() {
		look := time.NewTicker(rightsAge)
		defer look.Stop()
		for s.rights.holds(session.User, s.now()) {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			case <-ended:
				cancel()
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}
