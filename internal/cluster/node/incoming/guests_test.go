// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/move"
	"weir/internal/cluster/node/gate"
	"weir/internal/core/wire"
)

// TestDamagedGuest: of a copy whose record is damaged, its source gets no definite answer: "gone"
// would have it thaw its container while the copy may run. The others go on.
func TestDamagedGuest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "guests")
	var log strings.Builder
	open := func() *guests {
		t.Helper()
		g, err := openGuests(dir, make(gate.Slots, 1), time.Now(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	grant := func(id string) wire.Grant {
		return wire.Grant{Manifest: wire.Manifest{Move: id, Container: "web"}, From: "a", To: "b", Deadline: time.Now().Add(time.Minute)}
	}
	g := open()
	for _, id := range []string{"m-1", "m-2"} {
		if err := g.begin(grant(id), []byte("{}"), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "m-1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	g = open()
	if err := g.begin(grant("m-1"), []byte("{}"), time.Now()); err == nil || move.CodeOf(err) != "" {
		t.Errorf("begin: %v", err)
	}
	for _, step := range []move.Step{move.Create, move.Confirm, move.Discard} {
		if _, err := g.take(t.Context(), grant("m-1"), step, "", time.Now()); err == nil || move.CodeOf(err) != "" {
			t.Errorf("%s: %v", step, err)
		}
	}
	if _, err := os.Stat(g.description("m-1")); err != nil {
		t.Errorf("its description, for whoever looks at it: %v", err)
	}
	if err := g.begin(grant("m-2"), []byte("{}"), time.Now()); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if !strings.Contains(log.String(), "m-1.json.damaged") {
		t.Errorf("log: %s", log.String())
	}
}
