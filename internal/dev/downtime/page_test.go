// SPDX-License-Identifier: Apache-2.0

package paper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/dev/figures"
	"weir/internal/lab/cluster"
)

// moved is a migration of one step.
func moved(label, step string, took time.Duration, raw, sent int64) cluster.Event {
	e := cluster.Event{Label: label, Migration: &migrate.Result{}}
	s := migrate.Progress{Step: step, Duration: took}
	s.Outcome.Raw, s.Outcome.Bytes = raw, sent
	e.Migration.Steps = append(e.Migration.Steps, s)
	return e
}

// page of these runs.
func pageOf(t *testing.T, runs map[string][]cluster.Event) string {
	t.Helper()
	root := t.TempDir()
	for name, events := range runs {
		r := &figures.Run{Name: "c-balancer/" + name, Source: figures.Origin{Commit: "0123456789abcdef", Kernel: "6.1", Date: "2026-11-22"}}
		for _, e := range events {
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			r.Lines = append(r.Lines, line)
		}
		if err := r.Write(root); err != nil {
			t.Fatal(err)
		}
	}
	data, err := figures.Load(os.DirFS(filepath.Join(root, figures.Folder)))
	if err != nil {
		t.Fatal(err)
	}
	made, err := Page(data)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs["fig07"]) > 0 && !bytes.Contains(made[Folder+"/migration-approaches.svg"], []byte("<svg")) {
		t.Error("no picture of the approaches")
	}
	return string(made[Folder+"/migration.md"])
}

// What the page concludes is what its runs say, whichever way.
func TestConclusionsFollowTheData(t *testing.T) {
	for _, c := range []struct {
		absent, present time.Duration
		claim, verdict  string
	}{
		{9 * time.Second, time.Second, "the slowest while layers are absent.", "**Holds**."},
		{time.Second, time.Second, "the slowest while layers are absent.", "**Does not hold**: not for redis."},
		{9 * time.Second, time.Second, "faster than approach 1 once they are there.", "**Holds**."},
		{9 * time.Second, 3 * time.Second, "faster than approach 1 once they are there.", "**Does not hold**: not for redis."},
	} {
		text := pageOf(t, map[string][]cluster.Event{"fig07": {
			moved("redis export", "send export", 2*time.Second, 0, 1e6), moved("redis absent", "push-image", c.absent, 0, 2e6),
			moved("redis present", "commit", c.present, 0, 1e6), moved("redis layer", "send layer", time.Millisecond, 0, 1e5),
		}})
		if want := c.claim + " " + c.verdict; !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestPackingFollowsTheData(t *testing.T) {
	checkpoint := func(label string, raw, sent int64) cluster.Event {
		e := moved(label, "freeze", time.Second, raw, 0)
		e.Migration.Steps = append(e.Migration.Steps, moved(label, "send checkpoint", time.Second, 0, sent).Migration.Steps...)
		return e
	}
	text := pageOf(t, map[string][]cluster.Event{"fig09": {
		checkpoint("rgb 1", 100, 10), checkpoint("cache 1", 100, 10), checkpoint("cache 4", 90, 80), checkpoint("qsort 1", 100, 90),
	}})
	for _, want := range []string{
		"a larger checkpoint. **Does not hold**: not for cache 4.",
		"where memory is alike (rgb, cache, vm). **Does not hold**: not for cache 4.",
		"of random numbers (bsearch, qsort). **Holds**.",
		"commit `0123456789ab`, Linux 6.1, 2026-11-22",
		fmt.Sprintf("Missing: `lab/c-balancer/%s.yaml` was not run.", "fig07"),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
