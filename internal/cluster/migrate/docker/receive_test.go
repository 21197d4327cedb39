// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/cluster/migrate/pack"
)

// checkpointFolder returns a checkpoint's folder as a container here has it, with its files only.
func checkpointFolder(t *testing.T) folder {
	t.Helper()
	dir := t.TempDir()
	f := folder{place: place{pid: os.Getpid()}, own: filepath.Join(dir, "weir-m"), checkpoint: filepath.Join(dir, "checkpoints", "weir-m"), name: "weir-m"}
	f.before, f.images = filepath.Join(f.own, beforeDir), filepath.Join(f.own, "images")
	return f
}

// streamOf packs what fill puts into a folder.
func streamOf(t *testing.T, fill func(dir string) error) *bytes.Buffer {
	t.Helper()
	dir := t.TempDir()
	if err := fill(dir); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := pack.Write(&b, dir); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestACheckpointWithLinksChangesNothingElse: a source that is hostile sends, in place
// of a file of its checkpoint that the target edits, a link to a file of the host's.
func TestACheckpointWithLinksChangesNothingElse(t *testing.T) {
	was, is := strings.Repeat("a", 64), strings.Repeat("b", 64)
	victim := filepath.Join(t.TempDir(), "shadow")
	for name, fill := range map[string]func(dir string) error{
		"cgroup.img is a link": func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "cgroup.img")) },
		"parent leads elsewhere": func(dir string) error {
			return os.Symlink(filepath.Dir(victim), filepath.Join(dir, parentLink))
		},
		"a folder": func(dir string) error { return os.Mkdir(filepath.Join(dir, "x"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(victim, []byte("root:"+was), 0o600); err != nil {
				t.Fatal(err)
			}
			f := checkpointFolder(t)
			if _, err := f.takeCheckpoint(streamOf(t, fill), 1<<20, was, is, ""); err == nil || f.complete() {
				t.Errorf("the checkpoint was taken (%v)", err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "root:"+was {
				t.Errorf("a file of the host's is %q, %v", text, err)
			}
		})
	}
}

// TestACheckpointOfCRIUs is taken, with its link to what was copied ahead, and offered.
func TestACheckpointOfCRIUs(t *testing.T) {
	was, is := strings.Repeat("a", 64), strings.Repeat("b", 64)
	f := checkpointFolder(t)
	images := func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.img"), []byte("/docker/"+was), 0o600); err != nil {
			return err
		}
		return os.Symlink("../"+beforeDir, filepath.Join(dir, parentLink))
	}
	if _, err := f.takeMemory(streamOf(t, func(dir string) error { return os.WriteFile(filepath.Join(dir, "pages-1.img"), []byte("pages"), 0o600) }), 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := f.takeCheckpoint(streamOf(t, images), 1<<20, was, is, ""); err != nil || !f.complete() {
		t.Fatal(err)
	}
	if err := f.offer(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(f.checkpoint, "cgroup.img"))
	if err != nil || string(text) != "/docker/"+is {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := f.takeCheckpoint(streamOf(t, images), 10, was, is, ""); err == nil {
		t.Error("more than was announced is taken")
	}
}

// TestLargeCgroupsOfACheckpoint: the one file of a checkpoint that is read into memory
// is bounded, whatever size was announced for the whole.
func TestLargeCgroupsOfACheckpoint(t *testing.T) {
	was, is := strings.Repeat("a", 64), strings.Repeat("b", 64)
	f := checkpointFolder(t)
	images := func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "cgroup.img"), nil, 0o600), os.Truncate(filepath.Join(dir, "cgroup.img"), 64<<20))
	}
	if _, err := f.takeCheckpoint(streamOf(t, images), 1<<40, was, is, ""); err == nil || f.complete() {
		t.Errorf("64 MB of cgroups were taken (%v)", err)
	}
}

// TestAnIDLeadsNowhere: an id out of an order of another machine is not a path.
func TestAnIDLeadsNowhere(t *testing.T) {
	id := strings.Repeat("0a", 32)
	for _, bad := range [][2]string{{"", "m-1"}, {"..", "m-1"}, {"../../etc", "m-1"}, {"--all", "m-1"}, {strings.Repeat("../", 21) + "x", "m-1"}, {id, ""}, {id, "/../../x"}, {id, "m-1\x00"}} {
		if f, err := folderIn(place{pid: os.Getpid()}, "/var/lib/docker", bad[0], bad[1]); err == nil {
			t.Errorf("container %q and move %q: %s", bad[0], bad[1], f.own)
		}
	}
	f, err := folderIn(place{pid: os.Getpid()}, "/var/lib/docker", id, "m-1")
	if want := "/var/lib/docker/containers/" + id + "/weir-m-1"; err != nil || f.own != want {
		t.Errorf("%s, %v, want %s", f.own, err, want)
	}
}
