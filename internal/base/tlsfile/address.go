// SPDX-License-Identifier: Apache-2.0

package tlsfile

import (
	"net"

	"weir/internal/core/invalid"
)

// CheckAddress refuses an address, host:port, to which these files do not fit. key is that of the
// settings, example an address that is right, and exposed says what others could do in clear. It
// reads no file.
func (f Files) CheckAddress(listen, key, example, exposed string) error {
	host, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return &invalid.Error{Value: listen, Msg: "no address", Remedy: "give host:port, e.g. " + example + ", or off"}
	case f.Given() && (f.Cert == "" || f.Key == ""):
		return &invalid.Error{Value: listen, Msg: "TLS needs a certificate and its key", Remedy: "write tls: {cert: /PATH, key: /PATH}"}
	case !f.Given() && !Loopback(host):
		return &invalid.Error{Value: listen, Msg: "is not on the loopback, and without TLS every host on the path can " + exposed,
			Remedy: "give " + key + ": {listen: " + listen + ", tls: {cert: /PATH, key: /PATH, client_ca: /PATH}} in weir.yaml, or listen at " + example}
	}
	return nil
}

// Loopback reports whether a host is an address of this machine alone. The name localhost
// is one as well; the server checks its address when it listens there.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
