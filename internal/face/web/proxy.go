// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"slices"
	"time"

	"weir/internal/core/refusal"
)

// Proxy is a proxy in front of the page that knows the users, such as one that speaks OpenID
// Connect. It is believed on connections with its certificate only: on the loopback any user
// of the host could write the header.
type Proxy struct {
	Header string   // of requests, with the user's name; "" = there is no proxy
	Change []string // users who may change everything; "*" = all
	View   []string // users who may look
}

// proxied begins the names of users that a proxy gave, so that they are told apart from the
// host's in the audit log.
const proxied = "proxy:"

// speaks reports whether a request comes from the proxy with a user's name.
func (p Proxy) speaks(r *http.Request) bool {
	return p.Header != "" && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && r.Header.Get(p.Header) != ""
}

// session returns the session of the user whom the proxy names.
func (p Proxy) session(r *http.Request, of Program) (Session, *refusal.Error) {
	names := r.Header.Values(p.Header)
	if len(names) != 1 { // a client's own header, which the proxy should have replaced
		return Session{}, of.denied("the request has several users")
	}
	s := Session{User: User{Name: proxied + names[0]}, Ends: time.Now().Add(SessionTime).UTC().Truncate(time.Second)}
	switch {
	case among(p.Change, names[0]):
		s.Role = "change"
	case among(p.View, names[0]):
		s.Role = "view"
	default:
		return Session{}, of.denied("the proxy's user may not look")
	}
	return s, nil
}

func among(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, "*")
}
