// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/internal/base/crowd"
	"weir/internal/core/wire"
	"weir/internal/test/logtest"
)

// TestRefusedRequestsAreFewLines: a member that asks for grants that it does not get, as often as
// it can and with long names, fills no log; all refusals are counted.
func TestRefusedRequestsAreFewLines(t *testing.T) {
	const asked = 1000
	m, log := newManager(t), &logtest.Buffer{}
	m.log = slog.New(slog.NewTextHandler(log, nil))
	counted := m.refused.Load()
	for range asked {
		if _, err := m.grant("a", wire.Manifest{Move: strings.Repeat("m", 10_000), Container: "web"}, time.Now()); err == nil {
			t.Fatal("granted")
		}
	}
	if n := m.refused.Load() - counted; n != asked {
		t.Errorf("%d refusals are counted, want %d", n, asked)
	}
	if text := log.String(); !strings.Contains(text, "grant refused") || strings.Count(text, "\n") > crowd.LinesAtOnce+2 || len(text) > 10_000 {
		t.Errorf("%d lines of %d bytes", strings.Count(text, "\n"), len(text))
	}
}
