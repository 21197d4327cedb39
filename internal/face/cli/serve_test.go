// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"

	"weir/internal/face/cli/frame"
)

// TestServingIsRefused: a manager or an agent whose options contradict each other does not
// start.
func TestServingIsRefused(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"manager serve --bus kafka://k:1 --kafka-sasl PLAIN --kafka-user m --kafka-password-file /x", 2, "without TLS every host on the path can read it; give kafka: {tls: {ca: FILE}} as well, or use SCRAM-SHA-512"},
		{"manager serve --bus kafka://k:1 --kafka-sasl GSSAPI", 2, "not known; give SCRAM-SHA-512"},
		{"manager serve --bus kafka://k:1 --kafka-ca /none", 2, "manager.kafka.tls: authority /none: no such file"},
		{"manager serve --kafka-ca system", 2, "manager.kafka: is given, but the bus is nats"},
		{"manager serve --bus amqp://x", 2, "write nats (embedded in the manager) or kafka://"},
		{"manager restore /nowhere/file", 6, "there is no such file"},
		{"manager restore /proc/version", 2, "is no snapshot of a manager"},
		{"manager serve --state-dir /nowhere", 6, "weir manager init"},
		{"agent --link nosuch0=1mbit --token x", 2, "--manager is missing"},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out bytes.Buffer
			a := &frame.App{Streams: frame.Streams{Stdout: &out, Stderr: &out}}
			if code := runHere(t.Context(), a, strings.Fields(c.args)); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.want) || strings.Count(out.String(), "\n") != 1 {
				t.Errorf("not one line with %q:\n%s", c.want, &out)
			}
		})
	}
}
