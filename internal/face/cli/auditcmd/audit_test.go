// SPDX-License-Identifier: Apache-2.0

package auditcmd

import (
	"path/filepath"
	"testing"
	"time"

	"weir/internal/base/audit"
	"weir/internal/face/cli/frame"
	"weir/internal/test/goldentest"
)

func TestAuditRendering(t *testing.T) {
	at := time.Date(2026, 11, 22, 20, 15, 3, 0, time.UTC)
	alice := uint32(1000)
	list := []audit.Entry{
		{Time: at, Who: audit.Who{Via: audit.ViaAgent}, Action: "take-over", Object: "eth0", Result: audit.Done},
		{Time: at, Who: audit.Who{Via: audit.ViaLabel}, Action: "policy", Object: "db", After: map[string]any{"min": "20mbit", "weight": 1.0}, Result: audit.Done},
		{Time: at, Who: audit.Who{Via: audit.ViaSocket, UID: &alice, User: "alice", Command: "weir"}, Action: "set-policy", Object: "web",
			Before: map[string]any{"max": "none"}, After: map[string]any{"max": "10mbit"}, Result: audit.Done},
		{Time: at, Who: audit.Who{Via: audit.ViaSocket, User: "root", Login: "alice"}, Action: "set-policy", Object: "web",
			Change: map[string]any{"min": "90mbit"}, Result: audit.Refused, Reason: "link eth0 has no room for it"},
		{Time: at, Who: audit.Who{Via: audit.ViaSocket, User: "bob"}, Action: "set-policy", Object: "/v1/workloads/web/policy",
			Result: audit.Refused, Reason: "only root and group weir may change something", Omitted: 7},
		{Time: at, Who: audit.Who{Via: audit.ViaSocket, User: "alice"}, Action: "detach-workload", Object: "cam", Before: map[string]any{"weight": 1.0}, Result: audit.Done},
		{Time: at, Who: audit.Who{Via: audit.ViaNode, Node: "a"}, Action: "move", Object: "cam", Before: "running", After: "done", Result: audit.Done},
		{Time: at, Who: audit.Who{Via: audit.ViaNetwork, Address: "10.0.0.9:4711"}, Action: "join", Object: "evil\n\x1b[2J", Result: audit.Refused, Reason: "no such token"},
	}
	goldentest.Check(t, filepath.Join("testdata", "audit.golden"), renderAudit(list, time.UTC))
	goldentest.Check(t, filepath.Join("testdata", "audit-none.golden"), renderAudit(nil, time.UTC))
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 22, 20, 0, 0, 0, time.FixedZone("CET", 3600))
	for text, want := range map[string]time.Time{
		"1h": now.Add(-time.Hour), "90m": now.Add(-90 * time.Minute), "7d": now.Add(-7 * 24 * time.Hour), "all": {},
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, now.Location()),
		"2026-11-20 08:30":     time.Date(2026, 11, 20, 8, 30, 0, 0, now.Location()),
		"2026-11-20T08:30:00Z": time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC),
	} {
		if got, err := frame.Since(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "7", "d", "7dd", "2026-13-01"} {
		if got, err := frame.Since(text, now); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
