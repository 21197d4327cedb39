// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/core/workload"
)

// TestNoEngineHere: where there is neither a socket nor an engine that could make it, nothing
// is wrong; an engine that is asked for, is installed or was there, and is away, is a loss.
func TestNoEngineHere(t *testing.T) {
	for name, test := range map[string]struct {
		asked, installed, answered bool
		want                       workload.SourceState
	}{
		"nothing":                      {want: workload.SourceNone},
		"named in the configuration":   {asked: true, want: workload.SourceUnavailable},
		"installed, and does not run":  {installed: true, want: workload.SourceUnavailable},
		"it was there, and is removed": {answered: true, want: workload.SourceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(running(idA, "a", 1))
			world(t, e, func(w *fixture) {
				w.process(1, idA, 5)
				missing := filepath.Join(t.TempDir(), "docker.sock")
				w.docker.absence = absence{socket: missing, asked: test.asked, installed: func() bool { return test.installed }}
				if test.answered {
					w.docker.absence.socket = t.TempDir() // it is there at first
				} else {
					e.setDown(errors.New("no such file or directory"))
				}
				w.start()
				w.docker.absence.socket = missing
				e.setDown(errors.New("no such file or directory"))
				w.pass(10 * time.Second)
				if state, note := w.docker.Status(); state != test.want || note == "" {
					t.Errorf("status %q %q, want %q", state, note, test.want)
				}
				e.setDown(nil)
				w.docker.absence.socket = t.TempDir() // the engine has made it
				w.pass(lastRetry + 2*settle)
				w.expect("an engine is installed later", "docker:a veth5")
				if state, _ := w.docker.Status(); state != workload.SourceOK {
					t.Errorf("status %q of an engine that answers", state)
				}
			})
		})
	}
}
