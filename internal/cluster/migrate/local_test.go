// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// obedient is an engine that has done whatever it is asked.
type obedient struct{ migrate.Engine }

func (obedient) Close() error { return nil }
func (obedient) Do(context.Context, move.Step, migrate.MoveSpec) (migrate.StepOutcome, error) {
	return migrate.StepOutcome{}, nil
}

// TestEndedCopiesAreForgotten: of a copy that was discarded a node keeps its fate without
// the description, and a day later nothing, without another call and in a later process
// too.
func TestEndedCopiesAreForgotten(t *testing.T) {
	for name, restart := range map[string]bool{"same process": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				open := func() *migrate.Local {
					l, err := migrate.NewLocal("b", obedient{}, dir, slog.New(slog.DiscardHandler))
					if err != nil {
						t.Fatal(err)
					}
					return l
				}
				l := open()
				o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Container: migrate.Container{Name: "web", Config: json.RawMessage(`"` + strings.Repeat("x", 1<<16) + `"`)}}
				if _, err := l.Do(t.Context(), move.Discard, o); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(dir, "incoming", "m-1.json")
				if info, err := os.Stat(file); err != nil || info.Size() > 1000 {
					t.Errorf("the file of a copy that has ended: %v bytes, %v", info.Size(), err)
				}
				time.Sleep(12 * time.Hour)
				if restart {
					l.Close()
					l = open()
				}
				if _, err := l.Do(t.Context(), move.Create, o); err == nil || !strings.Contains(err.Error(), "is discarded") {
					t.Errorf("twelve hours later it is created: %v", err)
				}
				time.Sleep(13 * time.Hour)
				synctest.Wait()
				if _, err := os.Stat(file); !os.IsNotExist(err) || l.Knows("m-1") {
					t.Errorf("a day later: %v, known: %v", err, l.Knows("m-1"))
				}
				l.Close()
			})
		})
	}
}

// slow is an engine that restores a copy some time after its caller has died.
type slow struct {
	obedient
	restored time.Time
	held     *atomic.Bool
}

func (e slow) Hold(context.Context, migrate.MoveSpec) error {
	if time.Now().Before(e.restored) {
		return &move.Error{Code: move.CodeGone, Msg: "the copy is no more"}
	}
	e.held.Store(true)
	return nil
}

func (slow) Copy(context.Context, string) (string, bool, error) { return "", false, nil }

// TestALateRestoreIsHeld: an agent dies while its engine restores a copy, and the next one is
// there before the engine has done so. The copy is held all the same.
func TestALateRestoreIsHeld(t *testing.T) {
	dir := t.TempDir()
	o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Lease: 30 * time.Second, Container: migrate.Container{Name: "web"}}
	synctest.Test(t, func(t *testing.T) {
		e := slow{restored: time.Now().Add(2 * time.Second), held: &atomic.Bool{}}
		l, err := migrate.NewLocal("b", e, dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Do(t.Context(), move.Restore, o); err == nil { // it "dies": the engine has no copy yet
			t.Fatal("restored")
		}
		_ = l.Close()
		l, err = migrate.NewLocal("b", e, dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if !e.held.Load() {
			t.Error("the copy runs, and is not held")
		}
		_ = l.Close()
		synctest.Wait()
	})
}

// TestDamagedCopy: of a copy whose record is damaged nothing is done and nothing definite said,
// and other copies go on.
func TestDamagedCopy(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "incoming")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "m-1.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := migrate.NewLocal("b", obedient{}, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := migrate.MoveSpec{Move: "m-1", Container: migrate.Container{Name: "web"}}
	for _, step := range []move.Step{move.Create, move.Restore, move.Confirm, move.Discard} {
		if _, err := l.Do(t.Context(), step, o); err == nil || move.CodeOf(err) != "" {
			t.Errorf("%s: %v", step, err)
		}
	}
	o.Move = "m-2"
	if _, err := l.Do(t.Context(), move.Create, o); err != nil {
		t.Errorf("another copy: %v", err)
	}
}
