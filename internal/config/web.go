// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"

	"weir/internal/base/tlsfile"
	"weir/internal/core/invalid"
)

// Web holds the addresses where the agent, or the manager, serves its page.
type Web struct {
	Listen []string      // host:port, none = nowhere
	TLS    tlsfile.Files // Cert and Key; CA of the clients; "" = clients need no certificate
	Proxy  Proxy
	Hosts  []string // names by which browsers reach it besides localhost and addresses, in lower case
}

// Proxy is a proxy in front of the page, which knows the users.
type Proxy struct {
	UserHeader string   // header of its requests with a user's name, "" = there is no proxy
	Change     []string // users who may change everything; "*" = all
	View       []string // users who may look
}

// check refuses settings that would send the page over a network in clear: its tokens allow
// to change everything. field is the key of the settings, and example an address that is right.
// It reads no file.
func (w Web) check(field, example string) error {
	if w.Proxy.UserHeader != "" && w.TLS.CA == "" {
		return &invalid.Error{Value: w.Proxy.UserHeader, Msg: "without client_ca any client could write the proxy's header",
			Remedy: "write tls: {cert: /PATH, key: /PATH, client_ca: /PATH} with an authority that signs the proxy's certificate and no other"}
	}
	if w.Proxy.UserHeader == "" && len(w.Proxy.Change)+len(w.Proxy.View) > 0 {
		return &invalid.Error{Msg: "a proxy has users but no header with their names", Remedy: "write proxy: {user_header: X-Forwarded-User, ...}"}
	}
	return checkPort(w.Listen, w.TLS, field, example, "take the page's tokens")
}

// WebKeyFile returns the path of the key that signs the page's tokens.
func WebKeyFile(stateDir string) string { return filepath.Join(stateDir, "web.key") }

func (w *Web) read(fields node, field, example string) {
	place := readPort(fields, &w.Listen, &w.TLS, map[string]func(node){"hosts": func(list node) {
		list.items(func(item node) {
			name, ok := item.text()
			if ok && (name == "" || strings.ContainsAny(name, ":/ []")) {
				item.wrong("%q is no name of a host; write it without scheme and port, e.g. weir.example.org", name)
				return
			}
			w.Hosts = append(w.Hosts, strings.ToLower(name))
		})
	}, "proxy": func(value node) {
		value.fields([]string{"user_header", "change", "view"}, func(key string, value node) {
			if key == "user_header" {
				readText(value, &w.Proxy.UserHeader)
				return
			}
			list := map[string]*[]string{"change": &w.Proxy.Change, "view": &w.Proxy.View}[key]
			value.items(func(item node) {
				if name, ok := item.text(); ok {
					*list = append(*list, name)
				}
			})
		})
	}})
	place.refuse(w.check(field, example))
}
