// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"weir/internal/cluster/migrate"
)

// TestNamesAreNoOptions: names and ids of another machine that look like options, such as
// "--all", are never taken for options of a command.
func TestNamesAreNoOptions(t *testing.T) {
	dir := t.TempDir()
	log, command := filepath.Join(dir, "log"), filepath.Join(dir, "podman")
	script := `#!/bin/sh
for a in "$@"; do printf '%s\n' "$a"; done >>"` + log + `"; echo . >>"` + log + `"
case "$1 $2" in
"container inspect") echo '[{"Id":"--all","Name":"--all","State":{"Running":true},"NetworkSettings":{"Networks":{"--all":{}}}}]';;
"container checkpoint") echo x >"$4";;
"save -o") echo x >"$3";;
"volume exists"|"network exists"|"image exists") exit 1;;
esac
`
	if err := os.WriteFile(command, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := Open(filepath.Join(dir, "archives"), command)
	if err != nil {
		t.Fatal(err)
	}
	const evil = "--all"
	o := migrate.MoveSpec{Move: "m-1", Approach: migrate.ApproachBundle, Container: migrate.Container{ID: evil, Name: evil, Image: evil, ImageID: evil,
		Volumes: []migrate.Volume{{Name: evil}}, Networks: []migrate.Network{{Name: evil}}}}
	ctx := context.Background()
	_, _ = e.Describe(ctx, evil)
	_, _ = e.Lacking(ctx, o)
	_, _ = e.Send(ctx, migrate.Part{Kind: migrate.PartImage}, o, &strings.Builder{})
	if err := os.WriteFile(e.arrived(o.Move), []byte(evil), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = e.Hold(ctx, o)
	for _, step := range []move.Step{move.PullImage, move.PreCopy, move.Freeze, move.Thaw, move.Discard, move.Forget} {
		_, _ = e.Do(ctx, step, o)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for call := range strings.SplitSeq(strings.TrimSuffix(string(text), ".\n"), ".\n") {
		args := strings.Split(strings.TrimSpace(call), "\n")
		at, end := slices.Index(args, evil), slices.Index(args, "--")
		if at >= 0 && (end < 0 || at < end) {
			t.Errorf("podman %s: %s is an option", strings.Join(args, " "), evil)
		}
		if at >= 0 {
			seen[args[0]] = true
		}
	}
	for _, verb := range []string{"container", "network", "volume", "image", "save", "pause", "rm"} {
		if !seen[verb] {
			t.Errorf("podman %s was not called with it: %v", verb, seen)
		}
	}
}

// TestPathsNeedTheirRule: a node that sends containers does not learn which paths are here,
// but for those that a rule names.
func TestPathsNeedTheirRule(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "podman")
	if err := os.WriteFile(command, []byte("#!/bin/sh\necho no such container >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	e, err := Open(filepath.Join(dir, "archives"), command)
	if err != nil {
		t.Fatal(err)
	}
	e.Guard(accept.Rules{Binds: []string{dir}})
	found := func(source string) (texts []string) {
		o := migrate.MoveSpec{Move: "m-1", Container: migrate.Container{Name: "web", Binds: []migrate.BindMount{{Source: source}}}}
		list, err := e.Lacking(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			texts = append(texts, f.Code+" "+strings.ReplaceAll(f.Msg, source, "PATH"))
		}
		return texts
	}
	if here, not := found("/etc/shadow"), found("/etc/no-such-file"); len(here) != 1 || !slices.Equal(here, not) {
		t.Errorf("of a path that is here %q, of one that is not %q", here, not)
	}
	if here, not := found(dir), found(filepath.Join(dir, "x")); len(here) != 0 || len(not) != 1 {
		t.Errorf("of paths that a rule names: %q, %q", here, not)
	}
}

// TestEndThatPodmanMissed: podman calls a container running whose process has ended, since the file
// with its exit status is lost. The file is written again, in the folder of this podman.
func TestEndThatPodmanMissed(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	dir := t.TempDir()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "exits", id)
	podman := filepath.Join(dir, "podman")
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in
"--log-level debug info") echo 'time="now" level=debug msg="Using tmp dir %[1]s"' >&2;;
"container inspect"*)
	running=true; if [ -e %[2]s ]; then running=false; fi
	echo '[{"Id":"%[3]s","State":{"Running":'$running',"Pid":%[4]d}}]';;
esac
`, dir, file, id, ended.Process.Pid)
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(podman, []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	e, err := Open(filepath.Join(dir, "archives"), podman)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := e.settled(t.Context(), id); err != nil || r.State.Running {
		t.Errorf("%+v, %v", r.State, err)
	}
	if text, err := os.ReadFile(file); string(text) != killed {
		t.Errorf("the exit status is %q, %v", text, err)
	}
}
