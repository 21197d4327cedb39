// SPDX-License-Identifier: Apache-2.0

package bustest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/tlsfile"
)

// Listeners of a secured broker, by the distance of their port from the first.
const (
	ClearPort  = 0 // port 1 is the controller's
	TLSPort    = 2
	MutualPort = 3
	SASLPort   = 4
)

// At returns the address of a listener of a secured broker.
func (b *Broker) At(distance int) string {
	host, port, _ := net.SplitHostPort(b.Address)
	var n int
	fmt.Sscan(port, &n)
	return fmt.Sprintf("%s:%d", host, n+distance)
}

// Secured returns the settings of a broker with a listener of each kind, as
// docs/cluster.md shows them. password is that of user a by PLAIN.
func Secured(t *testing.T, port int, dir string, server tlsfile.Files, password string) string {
	t.Helper()
	var pair []byte
	for _, file := range []string{server.Key, server.Cert} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pair = append(pair, text...)
	}
	keystore := filepath.Join(dir, "broker.pem")
	if err := os.WriteFile(keystore, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(distance int) string { return fmt.Sprintf("127.0.0.1:%d", port+distance) }
	advertised := fmt.Sprintf("CLEAR://%s,TLS://%s,MUTUAL://%s,SASL://%s", at(ClearPort), at(TLSPort), at(MutualPort), at(SASLPort))
	return strings.NewReplacer("ADVERTISED", advertised, "CONTROLLERAT", at(1), "KEYSTORE", keystore, "TRUSTSTORE", server.CA,
		"PASSWORD", strings.ReplaceAll(strings.ReplaceAll(password, `\`, `\\`), `"`, `\\"`)).Replace(`
listeners=ADVERTISED,CONTROLLER://CONTROLLERAT
advertised.listeners=ADVERTISED
inter.broker.listener.name=CLEAR
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLEAR:PLAINTEXT,TLS:SSL,MUTUAL:SSL,SASL:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location=KEYSTORE
ssl.truststore.type=PEM
ssl.truststore.location=TRUSTSTORE
listener.name.mutual.ssl.client.auth=required
listener.name.sasl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_a="PASSWORD";
`)
}
