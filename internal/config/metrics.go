// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"

	"weir/internal/base/tlsfile"
	"weir/internal/core/invalid"
)

// Metrics holds the addresses where Prometheus may scrape beside the unix socket.
type Metrics struct {
	Listen []string      // host:port, none = nowhere
	TLS    tlsfile.Files // Cert and Key; CA of the clients; "" = clients need no certificate
}

// Check refuses settings that would send metrics over a network in clear: metrics name
// every container of the host. It reads no file.
func (m Metrics) Check() error {
	return checkPort(m.Listen, m.TLS, "metrics", "127.0.0.1:9469", "read the metrics")
}

// checkPort refuses addresses and TLS files under key that do not go together. example is
// an address that is right, and exposed says what others could do in clear.
func checkPort(listen []string, tls tlsfile.Files, key, example, exposed string) error {
	if len(listen) == 0 && tls.Given() {
		return &invalid.Error{Msg: "tls is given but no address", Remedy: "write listen: HOST:PORT beside it"}
	}
	for i, address := range listen {
		if slices.Contains(listen[:i], address) {
			return &invalid.Error{Value: address, Msg: "is there twice", Remedy: "name each address once"}
		}
		if err := tls.CheckAddress(address, key, example, exposed); err != nil {
			return err
		}
	}
	return nil
}

func (m *Metrics) read(fields node) {
	place := readPort(fields, &m.Listen, &m.TLS, nil)
	place.refuse(m.Check())
}

// readPort reads an address, or a list of them, with its TLS files, and further keys. It returns
// the node that a mistake in them is about.
func readPort(fields node, listen *[]string, tls *tlsfile.Files, more map[string]func(node)) (place node) {
	place = fields
	fields.fields(append([]string{"listen", "tls"}, slices.Sorted(maps.Keys(more))...), func(key string, value node) {
		switch key {
		case "listen":
			place = value
			if text, one := value.single(); !one {
				*listen = readTexts(value)
			} else if text != "" && text != "off" {
				*listen = []string{text}
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
