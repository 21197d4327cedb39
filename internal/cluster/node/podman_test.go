// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/clustertest/counter"
	"weir/internal/test/logtest"
)

// podmanHost makes w a host with Podman: a mount namespace in which its store is at the
// path of everybody's, as Podman's archives want it, and the service that speaks
// Docker's API.
func (w *weir) podmanHost(shared string) (socket string) {
	w.t.Helper()
	own := filepath.Join(w.dir, "store")
	for _, d := range []string{own, shared} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
	holder := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" "$1" && echo up && exec sleep 3600`, own, shared)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 3))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	// Limits are named since root of a container may not be allowed to raise them.
	for name, text := range map[string]string{
		"containers.conf": fmt.Sprintf("[engine]\ncgroup_manager = \"cgroupfs\"\nruntime = \"runc\"\nevents_logger = \"file\"\ntmp_dir = \"%s/tmp\"\n"+
			"[network]\nnetwork_backend = \"netavark\"\n[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n", shared),
		"storage.conf": fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = \"%s/root\"\nrunroot = \"%s/run\"\n", shared, shared),
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	w.inside = []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", holder.Process.Pid), "--"}
	w.env = []string{"CONTAINERS_CONF=" + w.dir + "/containers.conf", "CONTAINERS_STORAGE_CONF=" + w.dir + "/storage.conf", "NETAVARK_FW=iptables"}
	socket = filepath.Join(w.dir, "podman.sock")
	w.t.Cleanup(func() {
		for _, args := range [][]string{{"rm", "--all", "--force", "-t", "0"}, {"rmi", "--all", "--force"}} {
			if out, err := w.run(append([]string{"podman"}, args...)...).CombinedOutput(); err != nil {
				w.t.Errorf("podman %s: %v: %s", args[0], err, out)
			}
		}
	})
	w.keep(w.run("podman", "system", "service", "--time=0", "unix://"+socket))
	return socket
}

// podman runs a command that has to work.
func (w *weir) podman(args ...string) string {
	w.t.Helper()
	var errs bytes.Buffer
	cmd := w.run(append([]string{"podman"}, args...)...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out))
}

// podmanCount reads a counter's file.
func (w *weir) podmanCount(name string) (counter.Count, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/root%s", w.podman("inspect", "--format", "{{.State.Pid}}", name), counter.File))
	if err != nil {
		return counter.Count{}, err
	}
	return counter.Check(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
}

// TestPodmanNodes: nodes with Podman recognise it, are part of a cluster as those with
// Docker are, and move containers among themselves; to a node with Docker they do not.
func TestPodmanNodes(t *testing.T) {
	if !*long {
		t.Skip("builds Weir and starts three engines; -long runs it")
	}
	for _, file := range []string{"/usr/bin/podman", "/usr/bin/conmon", "/usr/sbin/runc", "/usr/lib/podman/netavark"} {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("%v: scripts/deps cluster installs it", err)
		}
	}
	c := clustertest.ForTest(t, clustertest.Options{Nodes: []string{"a", "b", "c"}})
	program := buildWeir(t)
	shared := filepath.Join(t.TempDir(), "store")
	nodes := map[string]*weir{}
	sockets := map[string]string{"c": c.Node("c").Socket}
	for _, name := range []string{"a", "b", "c"} {
		w := &weir{t: t, program: program, node: c.Node(name), dir: t.TempDir(), out: &logtest.Buffer{}}
		if nodes[name] = w; name != "c" {
			sockets[name] = w.podmanHost(shared)
		}
	}
	a, b := nodes["a"], nodes["b"]
	token := a.startManager(filepath.Join(a.dir, "manager"))
	for name, w := range nodes {
		if !eventually(func() bool { _, err := os.Stat(sockets[name]); return err == nil }) {
			t.Fatalf("no engine at %s:\n%s", sockets[name], w.out)
		}
		file := filepath.Join(w.dir, "weir.yaml")
		text := "links: [{device: eth0, egress: 50mbit}]\nbackend: tc\nstate_dir: " + w.dir + "/state\nsocket: " + w.dir + "/weir.sock\ndocker: {socket: " + sockets[name] + "}\n" +
			"groups: {tenant-b: {weight: 2}}\ncluster: {manager: \"" + c.Node("a").IP + ":7470\", token_file: " + token + ", name: " + name + ", accept_from: [a, b, c], accept: {policy: [weight, group]}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.daemon("agent", "--config", file)
	}
	image := filepath.Join(c.Dir, "image.tar")
	counterProgram, err := c.BuildCounter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-ec", `d=$(mktemp -d); mkdir "$d/state"; cp "$0" "$d/counter"; tar -C "$d" -cf "$1" .; rm -r "$d"`, counterProgram, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a.podman("import", image, "counter:1")
	a.podman("run", "-d", "--name", "web", "--label", "weir.weight=3", "counter:1", "/counter", "mib=8", "files=2")

	var list []api.ClusterContainer
	if !eventually(func() bool {
		out, err := a.command("ps", "-o", "json").Output()
		return err == nil && json.Unmarshal(out, &list) == nil && len(list) == 1 && list[0].Weight == 3 && strings.Count(nodesOf(a), "criu") == 3
	}) {
		t.Fatalf("the cluster is not up: %+v\n%s", list, nodesOf(a))
	}
	if said := nodesOf(a); strings.Count(said, "podman") != 2 || strings.Count(said, "docker") != 1 {
		t.Errorf("which engine is where is not said:\n%s", said)
	}
	if said, err := a.do("migrate", "web", "--to", "c"); err == nil || !strings.Contains(said, "c runs another engine (docker)") || strings.Count(strings.TrimSpace(said), "\n") > 0 {
		t.Errorf("to a node with Docker: %v", err)
	}
	if _, err := a.do("set", "web", "--weight", "5", "--group", "tenant-b", "--accept-gaps"); err != nil {
		t.Fatal(err)
	}
	for i, way := range [][2]*weir{{a, b}, {b, a}} {
		from, to := way[0], way[1]
		before, err := from.podmanCount("web")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.do("migrate", "web", "--to", to.node.Name); err != nil {
			t.Fatal(err)
		}
		var after counter.Count
		if !eventually(func() bool { after, err = to.podmanCount("web"); return err == nil && after.Last > before.Last+5 }) || after.First != 0 || after.Starts != 1 {
			t.Errorf("move %d: its memory has not come along: %+v, then %+v, %v", i, before, after, err)
		}
		t.Logf("the program has seen a standstill of %v", after.Gap.Round(time.Millisecond))
		if left := from.podman("ps", "--all", "--quiet"); left != "" {
			t.Errorf("move %d: %s stayed behind", i, left)
		}
		var w api.Workload
		if !eventually(func() bool {
			w, _ = to.workload("web")
			return w.Policy.Weight == 5 && w.Policy.Group == "tenant-b"
		}) {
			t.Errorf("move %d: what was set has not followed: %+v", i, w)
		}
	}
	a.do("moves")
	a.do("ps")
}
