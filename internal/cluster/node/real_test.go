// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/base/nsthread"
	"weir/internal/cluster/clustertest"
	"weir/internal/test/dockertest"
	"weir/internal/test/logtest"
)

// weir is the program, on a node of the test's.
type weir struct {
	t       *testing.T
	program string
	node    *clustertest.Node
	dir     string
	out     *logtest.Buffer
	inside  []string // what a command is run by, beside being in the node's network namespace
	env     []string
}

// command runs it in the node's network namespace.
func (w *weir) command(args ...string) *exec.Cmd {
	return w.run(append([]string{w.program}, args...)...)
}

// run is any program where w is.
func (w *weir) run(args ...string) *exec.Cmd {
	cmd := w.node.Command(context.Background(), slices.Concat(w.inside, args)...)
	cmd.Env = slices.Concat(os.Environ(), w.env, []string{"WEIR_SOCKET=" + filepath.Join(w.dir, "weir.sock"), managerSocket + filepath.Join(w.dir, "manager.sock")})
	return cmd
}

const managerSocket = "WEIR_MANAGER_SOCKET="

// do runs it to its end.
func (w *weir) do(args ...string) (string, error) {
	out, err := w.command(args...).CombinedOutput()
	w.t.Logf("%s$ weir %s\n%s", w.node.Name, strings.Join(args, " "), out)
	return string(out), err
}

// daemon runs it until the test ends.
func (w *weir) daemon(args ...string) { w.t.Helper(); w.keep(w.command(args...)) }

// keep runs a command until the test ends.
func (w *weir) keep(cmd *exec.Cmd) {
	w.t.Helper()
	cmd.Stdout, cmd.Stderr = w.out, w.out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if w.t.Failed() {
			w.t.Logf("log of %s:\n%s", w.node.Name, w.out)
		}
	})
}

// flood sends UDP out of a network namespace until the test ends.
func flood(t *testing.T, path, to string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		var conn net.Conn
		err := nsthread.InPath(path, func() (err error) {
			conn, err = net.Dial("udp", to)
			return err
		})
		for err == nil && ctx.Err() == nil {
			for range 20 { // 1.2 kB each, 100 Mbit/s in all
				_, _ = conn.Write(make([]byte, 1200))
			}
			time.Sleep(2 * time.Millisecond)
		}
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("flood from %s: %v", path, err)
		}
	})
}

// TestGuaranteeFollows is the whole of it with real parts: two hosts with Docker, each
// with its agent, a link of 50 Mbit/s that the first has promised away. A container
// there asks for 20 Mbit/s, is moved to the other host with its memory, and gets them
// there against a host that floods its link.
func TestGuaranteeFollows(t *testing.T) {
	if !*long {
		t.Skip("builds Weir and starts two engines; -long runs it")
	}
	c := clustertest.ForTest(t, clustertest.Options{Nodes: []string{"a", "b"}})
	program := buildWeir(t)
	nodes := map[string]*weir{}
	for _, name := range []string{"a", "b"} {
		nodes[name] = &weir{t: t, program: program, node: c.Node(name), dir: t.TempDir(), out: &logtest.Buffer{}}
	}
	a, b := nodes["a"], nodes["b"]
	state := filepath.Join(a.dir, "manager")
	token := a.startManager(state)
	for _, w := range nodes {
		file := filepath.Join(w.dir, "weir.yaml")
		text := "links: [{device: eth0, egress: 50mbit}]\nbackend: tc\nstate_dir: " + w.dir + "/state\nsocket: " + w.dir + "/weir.sock\ndocker: {socket: " + w.node.Socket + "}\n" +
			"cluster: {manager: \"" + c.Node("a").IP + ":7470\", token_file: " + token + ", name: " + w.node.Name + "}\nworkloads: {host: {weight: 100}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.daemon("agent", "--config", file)
	}
	a.node.MustRun(t, dockertest.Container{Name: "web", Image: clustertest.CounterImage, Command: []string{"mib=2"}})
	a.node.MustRun(t, dockertest.Container{Name: "db", Image: clustertest.CounterImage, Command: []string{"mib=1"},
		Labels: map[string]string{"weir.min": "40mbit", "weir.pinned": "true"}})
	if err := clustertest.CopyImage(t.Context(), c.Node("a"), c.Node("b"), clustertest.CounterImage); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool {
		var list []api.ClusterContainer
		out, err := a.command("ps", "-o", "json").Output()
		return err == nil && json.Unmarshal(out, &list) == nil && len(list) == 2 && (list[0].MinBps == 40e6 || list[1].MinBps == 40e6) &&
			strings.Count(nodesOf(a), "criu") == 2
	}) {
		t.Fatalf("the cluster is not up:\n%s", nodesOf(a))
	}
	flood(t, b.node.Netns, "10.77.0.1:9")
	before, err := c.Node("a").Count(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	said, err := a.do("set", "web", "--min", "20mbit")
	if err != nil || !strings.Contains(said, "asked the manager: moving web to b") {
		t.Fatalf("%v", err)
	}
	min := uint64(0)
	if !eventually(func() bool {
		w, ok := b.workload("web")
		if ok && len(w.Links) > 0 {
			min = w.Links[0].MinBps
		}
		return min == 20e6
	}) {
		a.do("moves")
		t.Fatalf("the min of web on b is %d after %v", min, time.Since(asked))
	}
	took := time.Since(asked)
	after, err := c.Node("b").Count(t.Context(), "web")
	if err != nil || after.Last < before.Last || after.Starts != 1 {
		t.Errorf("its memory has not come along: %+v, then %+v, %v", before, after, err)
	}
	// Its own traffic, out of its network namespace on b.
	info, err := c.Node("b").Docker().ContainerInspect(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	flood(t, filepath.Join("/proc", strconv.Itoa(info.State.Pid), "ns/net"), "10.77.0.1:9")
	time.Sleep(5 * time.Second)
	w, _ := b.workload("web")
	host, _ := b.workload("host")
	t.Logf("guaranteed and running on b after %.1f s; with both flooding, web sends %.1f Mbit/s, the host %.1f",
		took.Seconds(), w.Links[0].RateBps/1e6, host.Links[0].RateBps/1e6)
	if took > 30*time.Second {
		t.Errorf("it took %v; within 30 s is the bar", took)
	}
	if rate := w.Links[0].RateBps; rate < 19e6 {
		t.Errorf("web sends %.1f Mbit/s, 20 are guaranteed", rate/1e6)
	}
	if list, err := c.Node("a").Running(t.Context()); err != nil || strings.Contains(strings.Join(list, " "), "web") {
		t.Errorf("on a: %v, %v", list, err)
	}
	a.do("moves")
	a.do("nodes")
	a.do("ps")
	a.do("plan")
}

// TestImagesGoThroughTheManager: real engines push and pull by the manager's registry,
// each with the password that its agent hands to it; a container moves there and back
// by approach commit. Other users of the host get no answer but that they need one.
func TestImagesGoThroughTheManager(t *testing.T) {
	if !*long {
		t.Skip("builds Weir and starts two engines; -long runs it")
	}
	c := clustertest.ForTest(t, clustertest.Options{Nodes: []string{"a", "b"}})
	program := buildWeir(t)
	nodes := map[string]*weir{}
	for _, name := range []string{"a", "b"} {
		nodes[name] = &weir{t: t, program: program, node: c.Node(name), dir: t.TempDir(), out: &logtest.Buffer{}}
	}
	a := nodes["a"]
	token := a.startManager(filepath.Join(a.dir, "manager"))
	for _, w := range nodes {
		file := filepath.Join(w.dir, "weir.yaml")
		text := "links: [{device: eth0, egress: 50mbit}]\nbackend: tc\nstate_dir: " + w.dir + "/state\nsocket: " + w.dir + "/weir.sock\ndocker: {socket: " + w.node.Socket + "}\n" +
			"cluster: {manager: \"" + c.Node("a").IP + ":7470\", token_file: " + token + ", name: " + w.node.Name + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.daemon("agent", "--config", file)
	}
	a.node.MustRun(t, dockertest.Container{Name: "web", Image: clustertest.CounterImage, Command: []string{"mib=2", "files=2"}})
	if !eventually(func() bool {
		var list []api.ClusterContainer
		out, err := a.command("ps", "-o", "json").Output()
		return err == nil && json.Unmarshal(out, &list) == nil && len(list) == 1 && strings.Count(nodesOf(a), "criu") == 2
	}) {
		t.Fatalf("the cluster is not up:\n%s", nodesOf(a))
	}
	for i, way := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "b"}} {
		before, err := c.Node(way[0]).Count(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.do("migrate", "web", "--to", way[1], "--approach", "commit"); err != nil {
			t.Fatal(err)
		}
		after, err := c.Node(way[1]).Count(t.Context(), "web")
		if err != nil || after.Last < before.Last || after.First != 0 || after.Starts != 1 {
			t.Errorf("move %d: its memory and files have not come along: %+v, then %+v, %v", i, before, after, err)
		}
	}
	for _, w := range nodes {
		out, err := w.run("curl", "-sS", "-i", "http://127.0.0.1:7474/v2/").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "401 Unauthorized") {
			t.Errorf("root's curl on %s: %v\n%s", w.node.Name, err, out)
		}
	}
	a.do("moves")
	a.do("manager", "status")
}

// buildWeir compiles the program.
func buildWeir(t *testing.T) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "weir")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "weir/cmd/weir")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// startManager makes a cluster and runs its manager; token is a file for nodes to join by.
func (w *weir) startManager(state string) (token string) {
	w.t.Helper()
	said, err := w.do("manager", "init", "--state-dir", state)
	if err != nil {
		w.t.Fatal(err)
	}
	w.daemon("manager", "serve", "--state-dir", state)
	// The token that init has printed is for one node.
	var made api.Token
	if !eventually(func() bool {
		out, err := w.command("manager", "token", "create", "--uses", "unlimited", "-o", "json").Output()
		return err == nil && json.Unmarshal(out, &made) == nil && made.Token != ""
	}) {
		w.t.Fatalf("no token\n%s\n%s", said, w.out)
	}
	token = filepath.Join(w.dir, "token")
	if err := os.WriteFile(token, []byte(made.Token), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return token
}

func nodesOf(w *weir) string {
	out, _ := w.command("nodes").CombinedOutput()
	return string(out)
}

func (w *weir) workload(name string) (api.Workload, bool) {
	found, err := api.NewClient(filepath.Join(w.dir, "weir.sock")).Workload(context.Background(), name)
	return found, err == nil && len(found.Links) > 0
}
