// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/pack"
	"weir/internal/cluster/move"
)

// TestOwnContainersAreNoCopies: an order of another node that gives a copy the id of a container
// which is here, or brings an archive with another id than it says, ends nothing that is here.
func TestOwnContainersAreNoCopies(t *testing.T) {
	own, other := strings.Repeat("a", 64), strings.Repeat("b", 64)
	dir := t.TempDir()
	log, command := filepath.Join(dir, "log"), filepath.Join(dir, "podman")
	// The container `own` is here; whatever is restored is `own` or `other`, as the file says.
	script := `#!/bin/sh
echo "$@" >>"` + log + `"
case "$*" in
"container inspect"*` + own + `*) echo '[{"Id":"` + own + `","State":{"Running":true}}]';;
"container inspect"*) echo "no such container" >&2; exit 1;;
"container restore"*) cat "` + dir + `/restored";;
esac
`
	if err := os.WriteFile(command, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := Open(filepath.Join(dir, "archives"), command)
	if err != nil {
		t.Fatal(err)
	}
	order := func(move, id string) migrate.MoveSpec {
		return migrate.MoveSpec{Move: move, Approach: migrate.ApproachBundle, Container: migrate.Container{ID: id, Name: "web"}}
	}
	receive := func(o migrate.MoveSpec) error {
		var packed bytes.Buffer
		if _, err := pack.Copy(&packed, strings.NewReader("an archive")); err != nil {
			t.Fatal(err)
		}
		_, err := e.Receive(t.Context(), migrate.Part{Kind: migrate.PartArchive}, o, &packed)
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if e, ok := errors.AsType[*move.Error](err); !ok || e.Code != move.CodeRefused {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	refused("an archive of a container that is here", receive(order("m-1", own)))
	refused("an archive of a container by its name", receive(order("m-2", "web")))
	if err := receive(order("m-3", other)); err != nil {
		t.Fatal(err)
	}
	for _, step := range []move.Step{move.Restore, move.Discard} { // another id than the archive came for
		_, err := e.Do(t.Context(), step, order("m-3", own))
		refused(string(step), err)
	}
	strange := strings.Repeat("c", 64)
	if err := os.WriteFile(filepath.Join(dir, "restored"), []byte(strange+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = e.Do(t.Context(), move.Restore, order("m-3", other))
	refused("an archive with another id", err)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "rm -f -v -t 0 -- "+own) || !strings.Contains(string(text), "rm -f -v -t 0 -- "+strange) {
		t.Errorf("podman was called so:\n%s", text)
	}
}
