// SPDX-License-Identifier: Apache-2.0

package statefile

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/logtest"
)

type value struct{ N int }

// TestFolder: what is put is there in the next process and what is removed is not; a damaged
// file is set aside with a line in the log, is known as damaged from then on, and leaves the
// others alone.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "values")
	var log logtest.Buffer
	open := func() (Folder[value], map[string]*value) {
		t.Helper()
		f, all, err := Open[value](dir, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return f, all
	}
	f, all := open()
	if len(all) != 0 {
		t.Errorf("a new folder has %v", all)
	}
	for i, key := range []string{"a", "b", "c"} {
		if err := f.Put(key, &value{i}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it is not there
		if err := f.Remove("a"); err != nil {
			t.Error(err)
		}
	}
	if v, known := f.Get("c"); !known || v.N != 2 {
		t.Errorf("c is %v, %v", v, known)
	}
	if err := os.WriteFile(f.File("b"), []byte(`{"N":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, process := range []string{"that finds it", "after that"} {
		f, all = open()
		if len(all) != 1 || all["c"] == nil || !f.Damaged("b") || f.Damaged("c") {
			t.Errorf("the process %s has %v; damaged: b %v, c %v", process, all, f.Damaged("b"), f.Damaged("c"))
		}
		if _, known := f.Get("b"); !known {
			t.Errorf("the process %s knows nothing of what is damaged", process)
		}
	}
	if text, err := os.ReadFile(f.File("b") + ".damaged"); err != nil || string(text) != `{"N":` {
		t.Errorf("set aside: %q, %v", text, err)
	}
	if n := strings.Count(log.String(), "damaged"); strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
	if _, known := f.Get("a"); known {
		t.Error("a was removed, and is known")
	}
}

// TestKilledWhileWriting: what a process that was killed had written of a file is no value, whole
// or not, and nothing is set aside: the value is the former one.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	var log logtest.Buffer
	for name, text := range map[string]string{"a.json": `{"N":2}`, ".a.json1234567890": `{"N":1}`, ".b.json42": `{"N"`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, all, err := Open[value](dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || len(all) != 1 || all["a"] == nil || all["a"].N != 2 || log.String() != "" {
		t.Errorf("%v, %v; log %q", all, err, log.String())
	}
}

// TestFile: a file that is not there leaves a value as it is, and one that is damaged is an
// error with its path.
func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "value")
	v := value{7}
	if err := Read(file, &v); err != nil || v.N != 7 {
		t.Errorf("no file: %v, %v", v, err)
	}
	if err := Write(file, value{8}); err != nil {
		t.Fatal(err)
	}
	if err := Read(file, &v); err != nil || v.N != 8 {
		t.Errorf("%v, %v", v, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Read(file, &v); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("damaged: %v", err)
	}
}
