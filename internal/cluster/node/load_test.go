// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
	"weir/internal/face/server/managerapi"
)

var (
	long   = bustest.Long
	agents = flag.Int("agents", 1000, "how many, with -long")
)

// managerDir has the test binary be a manager, in a process of its own.
const managerDir = "WEIR_TEST_MANAGER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(managerDir); dir != "" {
		if err := runManager(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runManager(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := manager.Options{Dir: dir, Listen: os.Getenv("LISTEN"), BusListen: os.Getenv("BUS_LISTEN"), Bus: bus.Address{Kind: bus.NATS},
		Automatic: planning.DefaultAutomatic(), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	o.Automatic.AtOnce = 1000
	m, err := manager.New(o)
	if err != nil {
		return err
	}
	if err := m.Listen(ctx); err != nil {
		return err
	}
	sock, err := rest.Listen(filepath.Join(dir, "sock"), "", "manager", o.Log)
	if err != nil {
		return err
	}
	go rest.Server(managerapi.Handler(m, slog.New(slog.DiscardHandler)), o.Log).Serve(sock)
	fmt.Println(m.Addr(), m.BusAddr())
	return m.Run(ctx)
}

// process is a manager in a process of its own.
type process struct {
	cmd         *exec.Cmd
	dir         string
	listen, bus string
}

func (p *process) start(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), managerDir+"="+p.dir, "LISTEN="+p.listen, "BUS_LISTEN="+p.bus, "GOMAXPROCS=2")
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the manager has not begun: %v", err)
	}
	fields := strings.Fields(line)
	p.listen, p.bus = fields[0], fields[1]
}

// kill ends it as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// used returns the CPU time and the resident memory of the process.
func (p *process) used(t *testing.T) (cpu time.Duration, rss uint64) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	pages, _ := strconv.ParseUint(fields[21], 10, 64)
	return time.Duration(user+system) * time.Second / 100, pages * uint64(os.Getpagesize())
}

// simulated returns an agent of a machine that there is not, with ten containers to
// begin with. Odd ones have more to do than even ones.
func simulated(t *testing.T, p *process, w *world, token string, number int) (n *Node, stop func()) {
	name := fmt.Sprintf("n%04d", number)
	o := Options{Manager: p.listen, Token: token, Name: name, Listen: "127.0.0.1:0", Dir: filepath.Join(t.TempDir(), name), Version: "simulated",
		Log: slog.New(slog.DiscardHandler), Profile: func(context.Context) (wire.Profile, error) { return synthetic(w, name), nil }}
	for i := range 10 {
		w.put(name, fmt.Sprintf("%s-%d-%d", name, i, number%2))
	}
	id, err := enroll(t.Context(), o)
	if err == nil {
		o.Engine, err = migrate.NewLocal(name, engine{w, name}, filepath.Join(o.Dir, "migrate"), o.Log)
	}
	if err == nil {
		n, err = New(o, id)
	}
	if err == nil {
		err = n.Listen()
	}
	if err != nil {
		t.Error(err)
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	return n, func() { cancel(); <-done; o.Engine.Close() }
}

// synthetic returns a profile as a busy node sends it, about 8 kB.
func synthetic(w *world, node string) wire.Profile {
	p := wire.Profile{V: wire.ProfileVersion, Time: time.Now(), IntervalSeconds: 5,
		Capacity: wire.Capacity{CPUCores: 8, MemoryBytes: 16e9, NetworkTransmitBps: 1e9, NetworkReceiveBps: 1e9, GuaranteedBps: 1e9}}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, running := range w.has[node] {
		if !running {
			continue
		}
		busy := 0.1
		if strings.HasSuffix(name, "-1") {
			busy = 0.4
		}
		p.Containers = append(p.Containers, wire.ContainerProfile{ID: fmt.Sprintf("%064s", name), Name: name, Engine: "docker",
			Image: "registry.example.net/team/service:1.2.3", Labels: map[string]string{"weir.weight": "3"}, Policy: wire.Policy{Weight: 3, MinBps: 1e6},
			Usage: wire.Usage{CPUCores: busy * (1 + rand.Float64()/10), MemoryBytes: 400e6 + rand.Uint64N(10e6), MemoryAnonymousBytes: rand.Uint64N(1e9),
				BlockWriteBytesPerSec: rand.Float64() * 1e6, NetworkTransmitBps: busy * 1e7, NetworkReceiveBps: rand.Float64() * 1e6, Processes: 7,
				LLCMissesPerSec: new(rand.Float64() * 1e6), Pressure: &wire.Pressure{CPU: rand.Float64()}}})
	}
	return p
}

// many has a manager in a process of its own with so many agents.
func many(t *testing.T, count int) (*process, api.ManagerClient, *world) {
	t.Helper()
	raise(t, uint64(4*count+1000))
	p := &process{dir: filepath.Join(t.TempDir(), "manager"), listen: "127.0.0.1:0", bus: "127.0.0.1:0"}
	token, err := manager.InitFor(p.dir, api.AnyNumber, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p.start(t)
	t.Cleanup(func() { p.kill() })
	nodes, stops := make([]*Node, count), make([]func(), count)
	w := newWorld()
	begun := time.Now()
	var running sync.WaitGroup
	for first := range 8 {
		running.Go(func() {
			for i := first; i < count; i += 8 {
				nodes[i], stops[i] = simulated(t, p, w, token.String(), i)
			}
		})
	}
	running.Wait()
	t.Logf("%d agents joined in %.1f s", count, time.Since(begun).Seconds())
	t.Cleanup(func() {
		var ending sync.WaitGroup
		for _, stop := range stops {
			ending.Go(stop)
		}
		ending.Wait()
	})
	client := api.NewManagerClient(filepath.Join(p.dir, "sock"))
	allUp(t, client, count)
	for _, n := range nodes {
		if n == nil {
			t.FailNow() // said above
		}
		// Each knows all others, so that a manager that is killed next need not be asked.
		if err := n.members.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return p, client, w
}

// raise lets the process have so many files.
func raise(t *testing.T, files uint64) {
	t.Helper()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max < files {
		t.Skipf("this process may open %d files, %d are needed", l.Max, files)
	}
	l.Cur = l.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
}

func allUp(t *testing.T, client api.ManagerClient, count int) {
	t.Helper()
	up := 0
	for begun := time.Now(); time.Since(begun) < 3*time.Minute; time.Sleep(500 * time.Millisecond) {
		list, err := client.Nodes(t.Context())
		if err != nil {
			continue
		}
		up = 0
		for _, n := range list {
			if n.State == "up" && n.CPUCapacity > 0 && n.CRIU != "" {
				up++
			}
		}
		if up == count {
			return
		}
	}
	t.Fatalf("%d of %d nodes are up", up, count)
}

// TestManagerIsKilled while orders are under way: with the next process everything is
// as it was, and every order comes to its end, once.
func TestManagerIsKilled(t *testing.T) {
	const count = 20
	p, client, w := many(t, count)
	before, err := client.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := client.NewToken(t.Context(), api.TokenRequest{Uses: api.AnyNumber})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := client.Rebalance(t.Context(), api.PlanRequest{Above: new(0.0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Moves) == 0 {
		t.Fatal("nothing to move")
	}
	p.kill()
	p.start(t)
	allUp(t, client, count)
	after, err := client.Nodes(t.Context())
	if err != nil || len(after) != len(before) || !after[0].Joined.Equal(before[0].Joined) {
		t.Errorf("nodes before %d, after %d, %v", len(before), len(after), err)
	}
	tokens, err := client.Tokens(t.Context())
	if err != nil || len(tokens) != 2 || tokens[1].ID != token.ID || tokens[0].Joined != count {
		t.Errorf("tokens %+v, %v", tokens, err)
	}
	for _, m := range plan.Moves {
		var mv api.Move
		if !eventually(func() bool { mv, err = client.Move(t.Context(), m.ID); return err == nil && !mv.Ended.IsZero() }) {
			t.Fatalf("move %+v does not end, %v", mv, err)
		}
		if mv.State != "done" {
			t.Errorf("%+v", mv)
		}
		if at := w.where(mv.Container); len(at) != 1 || at[0] != mv.To {
			t.Errorf("%s runs on %v, ordered to %s", mv.Container, at, mv.To)
		}
	}
}

// TestThousandAgents measures what heartbeats and profiles at their real intervals cost
// the manager. The bar: under half of two CPUs.
func TestThousandAgents(t *testing.T) {
	if !*long {
		t.Skip("takes two minutes and most of the machine; -long runs it")
	}
	p, client, _ := many(t, *agents)
	const settle, measure = 10 * time.Second, 60 * time.Second
	time.Sleep(settle)
	begun := time.Now()
	cpu, _ := p.used(t)
	time.Sleep(measure)
	after, rss := p.used(t)
	took := time.Since(begun)
	share := float64(after-cpu) / float64(took)
	st, err := client.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	plan, err := client.Plan(t.Context(), api.PlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d agents, %d up, 10 containers each: %.1f %% of one CPU, %.1f %% of two; %d MB resident; a plan of %d moves in %.2f s",
		*agents, st.NodesUp, 100*share, 50*share, rss>>20, len(plan.Moves), time.Since(asked).Seconds())
	if st.NodesUp != *agents {
		t.Errorf("%d of %d nodes are up", st.NodesUp, *agents)
	}
	if share > 1 {
		t.Errorf("the manager takes %.0f %% of two CPUs; under 50 %% is the bar", 50*share)
	}
}
