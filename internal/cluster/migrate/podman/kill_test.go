// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// lockKills puts programs before those of iptables that do the same, and then, once, kill the
// CRIU that has called them. It returns the file that sets them.
func lockKills(t *testing.T) (set string) {
	t.Helper()
	dir := t.TempDir()
	set = filepath.Join(dir, "set")
	const script = `#!/bin/sh
%[1]s "$@"
result=$?
pid=$$
while [ -e %[2]s ] && [ "$pid" -gt 1 ]; do
	if tr '\0' ' ' </proc/$pid/cmdline | grep -q -e 'dump --rpc' -e ' swrk '; then
		rm %[2]s
		kill -9 "$pid"
	fi
	pid=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$pid/status)
done
exit "$result"
`
	for _, name := range []string{"iptables-restore", "iptables-legacy-restore", "iptables-nft-restore"} {
		if real, err := exec.LookPath(name); err == nil {
			if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, script, real, set), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return set
}

// TestNothingOfAKilledDumpStays: CRIU is killed behind its network lock. The container goes on,
// and nothing drops its packets.
func TestNothingOfAKilledDumpStays(t *testing.T) {
	set := lockKills(t)
	bed := newBed(t)
	bed.start(t, "mib=8")
	p, err := migrate.Check(t.Context(), bed.a.local, bed.b.local, migrate.Request{Move: "killed", Container: "web"})
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := bed.journals.Begin(p.Order)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := os.WriteFile(set, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := migrate.Run(t.Context(), bed.a.local, bed.b.local, j, nil)
	if err != nil || r.State != wire.MoveRolledBack || strings.Contains(r.Warning, "without") {
		t.Fatalf("%s: %v: %s; %s", r.State, err, r.Err, r.Warning)
	}
	if _, err := os.Stat(set); err == nil {
		t.Fatal("no CRIU was killed")
	}
	c, err := bed.a.inspect(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", c.State.Pid), "--", tool).CombinedOutput()
		if err != nil || strings.Contains(string(out), "CRIU") {
			t.Errorf("%s: %v\n%s", tool, err, out)
		}
	}
	now := bed.a.count(t, 0)
	if now = bed.a.count(t, now.Last+3); now.Starts != 1 {
		t.Errorf("it has started %d times", now.Starts)
	}
	bed.move(t, bed.a, bed.b, "after")
}

// TestKilledBehindItsDump: podman is killed when the dump is whole and the container about to end,
// at some moments, in about one of ten of which podman loses the container's end: it runs for ever
// to it. The container comes back with its memory.
func TestKilledBehindItsDump(t *testing.T) {
	bed := newBed(t)
	bed.seen(t)
	bed.start(t, "mib=8")
	a := bed.a
	for i := range 8 {
		r, err := a.inspect(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Describe(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		o := migrate.MoveSpec{Move: fmt.Sprintf("killed%d", i), Container: c, From: "a", To: "b", Approach: migrate.ApproachBundle}
		ctx, kill := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := a.Do(ctx, move.Freeze, o)
			ended <- err
		}()
		await(t, filepath.Join(r.StaticDir, "checkpoint", "inventory.img"))
		time.Sleep(time.Duration(25+i*3) * time.Millisecond)
		kill()
		frozen := <-ended
		out, err := a.Do(t.Context(), move.Thaw, o)
		if err != nil || out.Note != "" {
			t.Fatalf("%d: %v; %s", i, err, out.Note)
		}
		now := a.count(t, 0)
		if now = a.count(t, now.Last+3); now.Starts != 1 {
			t.Errorf("%d: it has started %d times", i, now.Starts)
		}
		t.Logf("%d: freeze: %v", i, frozen)
	}
	bed.nothingLeft(t)
}

// seen shows this process the first node's store, at the path by which podman names it.
func (b *testBed) seen(t *testing.T) {
	t.Helper()
	at := filepath.Join(b.dir, "store")
	if err := unix.Mount(filepath.Join(b.dir, "a"), at, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// await waits until a file is there.
func await(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", file)
		}
	}
}
