// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"

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
	host, _, err := net.SplitHostPort(m.Listen)
	switch {
	case m.Listen == "" && m.TLS.Given():
		return &invalid.Error{Msg: "tls is given but no address", Remedy: "write listen: HOST:PORT beside it"}
	case m.Listen == "":
		return nil
	case err != nil:
		return &invalid.Error{Value: m.Listen, Msg: "no address", Remedy: "give host:port, e.g. 127.0.0.1:9469, or off"}
	case m.TLS.Given() && (m.TLS.Cert == "" || m.TLS.Key == ""):
		return &invalid.Error{Value: m.Listen, Msg: "TLS needs a certificate and its key", Remedy: "write tls: {cert: /PATH, key: /PATH}"}
	case !m.TLS.Given() && !loopback(host):
		return &invalid.Error{Value: m.Listen, Msg: "is not on the loopback, and without TLS every host on the path can read the metrics",
			Remedy: "give metrics: {listen: " + m.Listen + ", tls: {cert: /PATH, key: /PATH, client_ca: /PATH}} in weir.yaml, or listen at 127.0.0.1:9469"}
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
	place := fields
	fields.fields([]string{"listen", "tls"}, func(key string, value node) {
		switch key {
		case "listen":
			place = value
			if text, ok := value.text(); ok && text != "off" {
				m.Listen = text
			}
		case "tls":
			value.fields([]string{"cert", "key", "client_ca"}, func(key string, value node) {
				readPath(value, map[string]*string{"cert": &m.TLS.Cert, "key": &m.TLS.Key, "client_ca": &m.TLS.CA}[key])
			})
		}
	})
	place.refuse(m.Check())
}
