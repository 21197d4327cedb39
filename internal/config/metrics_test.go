// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"strings"
	"testing"

	"weir/internal/base/tlsfile"
)

// TestMetricsInClear: an address that others reach is refused without TLS.
func TestMetricsInClear(t *testing.T) {
	secure := tlsfile.Files{Cert: "/c", Key: "/k"}
	for _, test := range []struct {
		text, want string
		metrics    Metrics
	}{
		{`{listen: "off"}`, "", Metrics{}},
		{`{listen: "127.0.0.1:9469"}`, "", Metrics{Listen: []string{"127.0.0.1:9469"}}},
		{`{listen: "127.9.9.9:9469"}`, "", Metrics{Listen: []string{"127.9.9.9:9469"}}},
		{`{listen: "[::1]:9469"}`, "", Metrics{Listen: []string{"[::1]:9469"}}},
		{`{listen: "localhost:9469"}`, "", Metrics{Listen: []string{"localhost:9469"}}},
		{`{listen: ["127.0.0.1:9469", "[::1]:9469"]}`, "", Metrics{Listen: []string{"127.0.0.1:9469", "[::1]:9469"}}},
		{`{listen: ["127.0.0.1:9469", "10.0.0.1:9469"]}`, `"10.0.0.1:9469": is not on the loopback`, Metrics{}},
		{`{listen: ["127.0.0.1:9469", "127.0.0.1:9469"]}`, "is there twice", Metrics{}},
		{`{listen: ":9469"}`, `metrics.listen: ":9469": is not on the loopback`, Metrics{}},
		{`{listen: "0.0.0.0:9469"}`, "is not on the loopback", Metrics{}},
		{`{listen: "10.0.0.1:9469"}`, "tls: {cert: /PATH, key: /PATH, client_ca: /PATH}}", Metrics{}},
		{`{listen: "somewhere:9469"}`, "is not on the loopback", Metrics{}},
		{`{listen: ":9469", tls: {cert: /c, key: /k}}`, "", Metrics{Listen: []string{":9469"}, TLS: secure}},
		{`{listen: ":9469", tls: {cert: /c, key: /k, client_ca: /a}}`, "", Metrics{Listen: []string{":9469"}, TLS: tlsfile.Files{Cert: "/c", Key: "/k", CA: "/a"}}},
		{`{listen: ":9469", tls: {client_ca: /a}}`, "TLS needs a certificate and its key", Metrics{}},
		{`{listen: ":9469", tls: {cert: /c}}`, "TLS needs a certificate and its key", Metrics{}},
		{`{tls: {cert: /c, key: /k}}`, "tls is given but no address", Metrics{}},
		{`{listen: ":9469", tls: {cert: c, key: /k}}`, "no absolute path", Metrics{}},
		{`{listen: ":9469", insecure: true}`, "unknown key", Metrics{}},
	} {
		c, err := Parse("weir.yaml", []byte("metrics: "+test.text))
		switch {
		case test.want == "" && (err != nil || !reflect.DeepEqual(c.Metrics, test.metrics)):
			t.Errorf("%s: %v, %+v", test.text, err, c.Metrics)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got %v, want %q", test.text, err, test.want)
		}
	}
}
