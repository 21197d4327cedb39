// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestAuditFile(t *testing.T) {
	for dir, want := range map[string]string{
		"/var/lib/weir":          "/var/log/weir/audit.log",
		"/var/lib/weir/":         "/var/log/weir/audit.log",
		"/var/lib/weir/manager":  "/var/log/weir-manager/audit.log",
		"/var/lib/weir-2":        "/var/lib/weir-2/audit.log",
		"/tmp/lab/agent-1/state": "/tmp/lab/agent-1/state/audit.log",
	} {
		if got := AuditFile(dir); got != want {
			t.Errorf("AuditFile(%q) = %q, want %q", dir, got, want)
		}
	}
}
