// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"testing"
)

// TestFlowtables reads the form in which libnftables-json(5) describes flow tables.
func TestFlowtables(t *testing.T) {
	const dump = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
		{"table": {"family": "inet", "name": "f", "handle": 1}},
		{"flowtable": {"family": "inet", "name": "ft", "table": "f", "handle": 2, "hook": "ingress", "prio": 0, "dev": ["eth0", "lan0"]}},
		{"flowtable": {"family": "ip", "name": "one", "table": "g", "handle": 2, "hook": "ingress", "prio": 0, "dev": "eth1"}},
		{"chain": {"family": "inet", "table": "f", "name": "c", "handle": 3}}]}`
	if got, want := flowtables([]byte(dump)), []string{"inet f ft (eth0, lan0)", "ip g one (eth1)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := flowtables([]byte("no JSON")); got != nil {
		t.Errorf("of no JSON: %q", got)
	}
}
