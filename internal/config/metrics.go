// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"net"
	"slices"

	"weir/internal/invalid"
	"weir/internal/tlsfile"
)

// Metrics holds the address where Prometheus may scrape beside the unix socket.
type Metrics struct {
	Listen string        // host:port, "" = nowhere
	TLS    tlsfile.Files // Cert and Key; CA of the clients; "" = clients need no certificate
}

// Check refuses settings that would send metrics over a network in clear: metrics name
// every container of the host. It reads no file.
func (m Metrics) Check() error {
	return checkPort(m.Listen, m.TLS, "metrics", "127.0.0.1:9469", "read the metrics")
}

// checkPort refuses an address and TLS files under key that do not go together. example is
// an address that is right, and exposed says what others could do in clear.
func checkPort(listen string, tls tlsfile.Files, key, example, exposed string) error {
	host, _, err := net.SplitHostPort(listen)
	switch {
	case listen == "" && tls.Given():
		return &invalid.Error{Msg: "tls is given but no address", Remedy: "write listen: HOST:PORT beside it"}
	case listen == "":
		return nil
	case err != nil:
		return &invalid.Error{Value: listen, Msg: "no address", Remedy: "give host:port, e.g. " + example + ", or off"}
	case tls.Given() && (tls.Cert == "" || tls.Key == ""):
		return &invalid.Error{Value: listen, Msg: "TLS needs a certificate and its key", Remedy: "write tls: {cert: /PATH, key: /PATH}"}
	case !tls.Given() && !loopback(host):
		return &invalid.Error{Value: listen, Msg: "is not on the loopback, and without TLS every host on the path can " + exposed,
			Remedy: "give " + key + ": {listen: " + listen + ", tls: {cert: /PATH, key: /PATH, client_ca: /PATH}} in weir.yaml, or listen at " + example}
	}
	return nil
}

// loopback reports whether a host is an address of this machine alone. The name localhost
// is one as well; the server checks its address when it listens there.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (m *Metrics) read(fields node) {
	place := readPort(fields, &m.Listen, &m.TLS, nil)
	place.refuse(m.Check())
}

// readPort reads an address with its TLS files, and further keys. It returns the node that
// a mistake in them is about.
func readPort(fields node, listen *string, tls *tlsfile.Files, more map[string]func(node)) (place node) {
	place = fields
	fields.fields(append([]string{"listen", "tls"}, slices.Sorted(maps.Keys(more))...), func(key string, value node) {
		switch key {
		case "listen":
			place = value
			if text, ok := value.text(); ok && text != "off" {
				*listen = text
			}
		case "tls":
			value.fields([]string{"cert", "key", "client_ca"}, func(key string, value node) {
				readPath(value, map[string]*string{"cert": &tls.Cert, "key": &tls.Key, "client_ca": &tls.CA}[key])
			})
		default:
			more[key](value)
		}
	})
	return place
}
