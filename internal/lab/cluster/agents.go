// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// upLimit is how long manager and agents may take to be all there, and upLimitVM where
// the agents are in virtual machines.
const (
	upLimit   = 60 * time.Second
	upLimitVM = 5 * time.Minute
)

// plane is Weir itself in a cluster of the lab: a manager beside the switch, and an
// agent on each node, as processes of weir. Each has a mount namespace with a
// BPF file system of its own, as a machine has.
type plane struct {
	cluster *clustertest.Cluster
	program string // file of weir
	spec    Agents
	dir     string

	mu      sync.Mutex
	running map[string]*process // by node, the manager by ""; without the processes in a machine
	ways    []net.Listener      // to agents in machines
}

// limit is how long manager and agents may take for something.
func (p *plane) limit() time.Duration {
	for _, n := range p.cluster.Nodes() {
		if n.Machine() != nil {
			return upLimitVM
		}
	}
	return upLimit
}

// startPlane makes the cluster and starts all of it.
func startPlane(ctx context.Context, c *clustertest.Cluster, program string, spec Agents) (*plane, error) {
	p := &plane{cluster: c, program: program, spec: spec, dir: filepath.Join(c.Dir, "weir"), running: map[string]*process{}}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	said, err := p.weir(ctx, "", "manager", "init", "--uses", "unlimited", "--state-dir", p.state(""))
	if err != nil {
		return nil, fmt.Errorf("weir manager init: %w: %s", err, said)
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if err := os.WriteFile(p.file("token"), []byte(lines[len(lines)-1]), 0o600); err != nil {
		return nil, err
	}
	err = p.start("")
	for _, n := range c.Nodes() {
		if err == nil {
			err = p.configure(n)
		}
		if err == nil {
			err = p.start(n.Name)
		}
	}
	if err == nil {
		err = p.up(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *plane) file(name string) string { return filepath.Join(p.dir, name) }

// state is the state folder of a node's agent, or of the manager.
func (p *plane) state(node string) string {
	if node == "" {
		return p.file("manager")
	}
	return p.file("state-" + node)
}

// managerAddress is where the nodes reach the manager.
func (p *plane) managerAddress() string { return clustertest.SwitchAddress + ":7470" }

// configure writes a node's weir.yaml. JSON is YAML.
func (p *plane) configure(n *clustertest.Node) error {
	member := map[string]any{"manager": p.managerAddress(), "token_file": p.file("token"), "name": n.Name}
	settings := map[string]any{
		"links":     []any{map[string]any{"device": "eth0", "egress": p.spec.Egress}},
		"backend":   p.spec.backend(),
		"cluster":   member,
		"workloads": p.spec.Workloads,
	}
	if n.Machine() != nil {
		return p.configureMachine(n, settings, member)
	}
	settings["state_dir"], settings["socket"] = p.state(n.Name), p.socket(n.Name)
	settings["docker"] = map[string]any{"socket": n.Socket}
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	return os.WriteFile(p.file(n.Name+".yaml"), text, 0o600)
}

func (p *plane) socket(node string) string { return p.file(node + ".sock") }

func (p *plane) managerSocket() string { return p.file("manager.sock") }

// privateMounts becomes its arguments with a BPF file system of its own.
const privateMounts = `mount -t bpf bpf /sys/fs/bpf && exec "$@"`

// start starts a node's agent, or the manager.
func (p *plane) start(node string) error {
	if m := p.machine(node); m != nil {
		_, err := m.Run(context.Background(), "./cluster-node start_agent")
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[node] != nil {
		return nil
	}
	own := []string{"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", privateMounts, "sh", p.program}
	var cmd *exec.Cmd
	if node == "" {
		cmd = p.cluster.Command(context.Background(), append(own, "manager", "serve", "--state-dir", p.state(""), "--manager-socket", p.managerSocket())...)
	} else {
		cmd = p.cluster.Node(node).Command(context.Background(), append(own, "agent", "--config", p.file(node+".yaml"))...)
	}
	process, err := startProcess(cmd, p.log(node))
	if err != nil {
		return err
	}
	p.running[node] = process
	return nil
}

// log is the file of what a node's agent, or the manager, has said.
func (p *plane) log(node string) string {
	if node == "" {
		node = "manager"
	}
	return p.file(node + ".log")
}

// kill ends a node's agent, or the manager, as a crash does.
func (p *plane) kill(node string) {
	if m := p.machine(node); m != nil {
		_, _ = m.Run(context.Background(), "./cluster-node kill_agent") // fails only if it does not run
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.running[node]; r != nil {
		r.end(syscall.SIGKILL)
		delete(p.running, node)
	}
}

// stop ends all of it.
func (p *plane) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.running {
		r.end(syscall.SIGTERM)
	}
	clear(p.running)
	var errs []error
	for _, l := range p.ways {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// weir runs a command to its end; node says whose agent is meant. What it printed on
// both streams is the answer.
func (p *plane) weir(ctx context.Context, node string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = append(os.Environ(), "WEIR_MANAGER_SOCKET="+p.managerSocket(), "NO_COLOR=1")
	if node != "" {
		cmd.Env = append(cmd.Env, "WEIR_SOCKET="+p.socket(node))
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *plane) manager() api.ManagerClient { return api.NewManagerClient(p.managerSocket()) }

func (p *plane) agent(node string) *api.Client { return api.NewClient(p.socket(node)) }

// up waits until the manager knows of all nodes what they have and can do.
func (p *plane) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	var list []api.Node
	err := poll(ctx, func() (bool, error) {
		var err error
		if list, err = p.manager().Nodes(ctx); err != nil {
			return false, p.alive()
		}
		ready := 0
		for _, n := range list {
			if n.State == "up" && n.CPUCapacity > 0 && n.CRIU != "" {
				ready++
			}
		}
		return ready == len(p.cluster.Nodes()), p.alive()
	})
	if err != nil {
		return fmt.Errorf("not all agents are up: %w\n%s", err, p.lastWords())
	}
	return nil
}

// hears waits until manager and agent hear of each other, after a start or a cut, and the
// manager can plan with the node.
func (p *plane) hears(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	began := time.Now()
	err := poll(ctx, func() (bool, error) {
		status, err := p.agent(node).Status(ctx)
		if err != nil || status.Cluster == nil || status.Cluster.State != "connected" {
			return false, p.alive()
		}
		list, err := p.manager().Nodes(ctx)
		return err == nil && slices.ContainsFunc(list, func(n api.Node) bool { return n.Name == node && n.State == "up" && n.Profiled.After(began) }), p.alive()
	})
	if err != nil {
		return fmt.Errorf("manager and agent of %s do not hear of each other: %w\n%s", node, err, p.lastWords())
	}
	return nil
}

// knows waits until the manager knows of a container.
func (p *plane) knows(ctx context.Context, container string) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	err := poll(ctx, func() (bool, error) {
		list, err := p.manager().Containers(ctx)
		return err == nil && slices.ContainsFunc(list, func(c api.ClusterContainer) bool { return c.Name == container }), nil
	})
	if err != nil {
		return fmt.Errorf("the manager does not hear of container %s: %w\n%s", container, err, p.lastWords())
	}
	return nil
}

// alive says which process has ended by itself.
func (p *plane) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, r := range p.running {
		select {
		case <-r.ended:
			if node == "" {
				return errors.New("the manager has ended")
			}
			return fmt.Errorf("the agent of %s has ended", node)
		default:
		}
	}
	return nil
}

// lastWords are the ends of all logs.
func (p *plane) lastWords() string {
	var b strings.Builder
	files, _ := filepath.Glob(p.file("*.log"))
	for _, file := range files {
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(file), lastLines(file))
	}
	return b.String()
}

// migrate orders a move and waits for its end.
func (p *plane) migrate(ctx context.Context, st TimelineStep) (migrate.Result, error) {
	r := migrate.Result{Approach: st.Approach}
	mv, err := p.manager().Migrate(ctx, api.MoveRequest{Container: st.Migrate, To: st.To, Approach: string(st.Approach)}, false)
	if err != nil {
		return r, err
	}
	err = poll(ctx, func() (bool, error) {
		now, err := p.manager().Move(ctx, mv.ID)
		if err == nil { // the manager may have been killed
			mv = now
		}
		return !mv.Ended.IsZero(), nil
	})
	r.Move, r.State, r.Err, r.Bytes = mv.ID, wire.MoveState(mv.State), mv.Error, int64(mv.Bytes)
	r.Downtime = time.Duration(mv.DownMS * 1e6)
	for _, s := range mv.Steps {
		r.Steps = append(r.Steps, migrate.Progress{Move: mv.ID, Step: s.Step, Done: true, Err: s.Error,
			Outcome: migrate.StepOutcome{Bytes: int64(s.Bytes)}, Duration: time.Duration(s.DurationMS * 1e6)})
	}
	return r, err
}

// reached waits until a container's move is in a step.
func (p *plane) reached(ctx context.Context, d During) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit())
	defer cancel()
	began := time.Now()
	err := poll(ctx, func() (bool, error) {
		records, err := p.records(d.Move)
		if err != nil || len(records) == 0 || records[0].At.Before(began.Add(-time.Second)) {
			return false, nil // none yet: a move of before is not meant
		}
		return slices.ContainsFunc(records, func(r migrate.JournalEntry) bool { return r.Kind == migrate.KindStep && r.Step == d.Step }), nil
	})
	if err != nil {
		return fmt.Errorf("no move of %s has come to %s: %w", d.Move, d.Step, err)
	}
	return nil
}

// moving says whether it is open yet on which node a container stays after its last move.
func (p *plane) moving(container string) bool {
	records, err := p.records(container)
	return err == nil && !slices.ContainsFunc(records, func(r migrate.JournalEntry) bool {
		return r.Kind == migrate.KindConfirmed || r.Kind == migrate.KindThawed || r.Kind == migrate.KindEnd
	})
}

// records are the journal of a container's last move, which is in the agent's folder on
// the node that it moves from.
func (p *plane) records(container string) ([]migrate.JournalEntry, error) {
	p.fetchJournals()
	files, err := filepath.Glob(p.file("state-*/cluster/moves/journal/*.jsonl"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(b), filepath.Base(a)) }) // ids begin with the time
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var records []migrate.JournalEntry
		for line := range bytes.Lines(text) {
			var r migrate.JournalEntry
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // it is being written
			}
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			records = append(records, r)
		}
		if len(records) > 0 && records[0].Order != nil && records[0].Order.Container.Name == container {
			return records, nil
		}
	}
	return nil, fmt.Errorf("no journal is about %s", container)
}

// journal is the same as text, a line for each record.
func (p *plane) journal(container string) (string, error) {
	records, err := p.records(container)
	var b strings.Builder
	for _, r := range records {
		what := strings.TrimSpace(strings.Join([]string{r.Node, r.Step, string(r.State), r.Err}, " "))
		if o := r.Order; o != nil {
			what = fmt.Sprintf("%s from %s to %s by %s", container, o.From, o.To, o.Approach)
		}
		fmt.Fprintf(&b, "%s  %-9s  %s\n", r.At.Format("15:04:05.000"), r.Kind, what)
	}
	return b.String(), err
}

// poll asks fifty times a second until the answer is yes.
func poll(ctx context.Context, ask func() (bool, error)) error {
	return pollEvery(ctx, 20*time.Millisecond, ask)
}

func pollEvery(ctx context.Context, pause time.Duration, ask func() (bool, error)) error {
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// process is one that ends with this one.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// endLimit is the longest time that a process may take to end when it is asked to.
const endLimit = 20 * time.Second

// startProcess starts one whose output goes to the end of a file. The thread that
// starts it lives as long as it does: the kernel ends it with that thread.
func startProcess(cmd *exec.Cmd, log string) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.ended)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			started <- err
			return
		}
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		err = cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
		}
	}()
	return p, <-started
}

// end sends a signal and waits.
func (p *process) end(how syscall.Signal) {
	_ = p.cmd.Process.Signal(how) // fails only if it has ended already
	select {
	case <-p.ended:
	case <-time.After(endLimit):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}
