// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path/filepath"
	"strings"

	"weir/internal/tlsfile"
)

// Web holds the address where the agent serves its page.
type Web struct {
	Listen string        // host:port, "" = nowhere
	TLS    tlsfile.Files // Cert and Key; CA of the clients; "" = clients need no certificate
	Hosts  []string      // names by which browsers reach it besides localhost and addresses, in lower case
}

// Check refuses settings that would send the page over a network in clear: its tokens allow
// to change every policy. It reads no file.
func (w Web) Check() error {
	return checkPort(w.Listen, w.TLS, "web", "127.0.0.1:7480", "take the page's tokens")
}

// WebKeyFile returns the path of the key that signs the page's tokens.
func WebKeyFile(stateDir string) string { return filepath.Join(stateDir, "web.key") }

func (w *Web) read(fields node) {
	place := readPort(fields, &w.Listen, &w.TLS, map[string]func(node){"hosts": func(list node) {
		list.items(func(item node) {
			name, ok := item.text()
			if ok && (name == "" || strings.ContainsAny(name, ":/ []")) {
				item.wrong("%q is no name of a host; write it without scheme and port, e.g. weir.example.org", name)
				return
			}
			w.Hosts = append(w.Hosts, strings.ToLower(name))
		})
	}})
	place.refuse(w.Check())
}
