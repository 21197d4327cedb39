// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/client"

	"weir/internal/cluster/clustertest"
)

// Nodes that are virtual machines (vm/run), each with Debian's Docker, CRIU and a weir
// agent on the BPF qdisc in it. The manager and the registry are programs of this
// machine:
//
//	 10.77.0.1 manager, registry                10.78.0.1 this process
//	   ┌──────── br0 ────────┐                    ┌──────── ctl ────────┐
//	  tap                   tap                  tap                   tap
//	   │                     │                    │                     │
//	eth0 .11              eth0 .12              eth1 .11              eth1 .12
//	machine a             machine b             machine a             machine b
//
// All of it is in the network namespace of the switch. By the second bridge the lab
// reaches the machines while their cables are cut; vm/cluster-node is its other end.
const (
	controlBridge  = "ctl"
	controlAddress = "10.78.0.1"
	controlPrefix  = "10.78.0."

	enginePort = "2375"
	agentPort  = "2470"
	shellPort  = "2222"
)

const (
	vmKernel   = "7.3" // a series with BPF qdiscs
	machineMiB = 2048  // of memory, of which half may be the engine's disk
	// bootLimit is the longest time until a machine's engine answers. Emulation is 10 to
	// 20 times as slow as this machine, and slower still beside others.
	bootLimit = 8 * time.Minute
	bootPoll  = time.Second // each look costs the machine that is looked at
)

// machine is a node that is a virtual machine. It implements clustertest.Machine.
type machine struct {
	cluster *clustertest.Cluster
	vm      string // folder of vm/run
	image   string // of vm/run: cluster, or units with systemd
	name    string
	address string // for the other nodes
	control string // for the lab
	memory  int    // MiB
	disk    int    // MiB of memory, the engine's
	folder  string // what the machine gets, and its log
	taps    []*os.File
	macs    []string
	docker  *client.Client

	mu      sync.Mutex
	running *process // nil while it is switched off
}

// machines returns the function that makes a scenario's nodes (clustertest.Options.Machine).
func machines(ctx context.Context, s Spec, program string) (func(context.Context, *clustertest.Cluster, string, string) (clustertest.Machine, error), error) {
	vm, err := vmFolder(program)
	if err != nil {
		return nil, err
	}
	image := "cluster"
	if s.Machines == MachinesUnits {
		image = "units"
	}
	// What downloads needs this machine's network.
	build := exec.CommandContext(ctx, filepath.Join(vm, "build"), "--image", image, "--kernel", vmKernel)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: vm/build: %w: %s", clustertest.ErrNotPossible, err, strings.TrimSpace(string(out)))
	}
	var control sync.Once
	return func(ctx context.Context, c *clustertest.Cluster, name, address string) (clustertest.Machine, error) {
		var err error
		control.Do(func() { err = c.AddBridge(controlBridge, controlAddress) })
		if err != nil {
			return nil, err
		}
		m := &machine{cluster: c, vm: vm, image: image, name: name, address: address, memory: cmp.Or(s.MemoryMiB, machineMiB), folder: filepath.Join(c.Dir, name)}
		m.disk = cmp.Or(s.DiskMiB, m.memory/2)
		if err := m.plug(); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		if err := m.PowerOn(ctx); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, nil
}

// vmFolder finds vm/run of the checkout that a program was built in, or of the one
// that is the working directory.
func vmFolder(program string) (string, error) {
	for _, folder := range []string{filepath.Join(filepath.Dir(program), "..", "vm"), "vm"} {
		if _, err := os.Stat(filepath.Join(folder, "cluster-node")); err == nil {
			return filepath.Abs(folder)
		}
	}
	return "", fmt.Errorf("%w: machines: vm needs vm/run, which is not beside %s nor here; run it in a checkout of Weir", clustertest.ErrNotPossible, program)
}

// plug connects the machine by both its devices.
func (m *machine) plug() error {
	last := m.address[strings.LastIndexByte(m.address, '.')+1:]
	m.control = controlPrefix + last
	number, err := strconv.Atoi(last)
	if err != nil {
		return err
	}
	for device, bridge := range []func() (*os.File, error){
		func() (*os.File, error) { return m.cluster.Plug(m.name) },
		func() (*os.File, error) { return m.cluster.PlugInto(controlBridge, m.name+" "+controlBridge) },
	} {
		tap, err := bridge()
		if err != nil {
			return err
		}
		m.taps = append(m.taps, tap)
		m.macs = append(m.macs, fmt.Sprintf("02:00:00:00:%02x:%02x", device, number))
	}
	m.docker, err = client.NewClientWithOpts(client.WithHost("tcp://"+net.JoinHostPort(m.control, enginePort)), client.WithAPIVersionNegotiation(),
		client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) { return m.dial(ctx, enginePort) }))
	return err
}

// dial connects from the switch's namespace to the machine's way in.
func (m *machine) dial(ctx context.Context, port string) (conn net.Conn, err error) {
	err = m.cluster.Inside(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "tcp", net.JoinHostPort(m.control, port))
		return err
	})
	return conn, err
}

// configure writes what becomes the engine's part of the machine's /etc.
func (m *machine) configure() error {
	files := map[string]string{
		"containerd/config.toml": "version = 2\nroot = \"/var/lib/docker/containerd\"\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n",
		"docker/daemon.json": fmt.Sprintf(`{"experimental": true, "storage-driver": "overlay2", "insecure-registries": [%q], "userland-proxy": false, "iptables": false}`,
			clustertest.Subnet),
		"criu/runc.conf": "file-locks\nghost-limit 64M\n",
	}
	for name, text := range files {
		file := filepath.Join(m.folder, "config", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) Docker() *client.Client { return m.docker }

func (m *machine) DialAgent(ctx context.Context) (net.Conn, error) { return m.dial(ctx, agentPort) }

func (m *machine) Off() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running == nil
}

// swap puts another process, or none, in the place of the one that it returns.
func (m *machine) swap(p *process) (before *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.running = m.running, p
	return before
}

func (m *machine) PowerOn(ctx context.Context) error {
	if !m.Off() {
		return fmt.Errorf("machine %s is on", m.name)
	}
	if err := m.configure(); err != nil {
		return fmt.Errorf("machine %s: %w", m.name, err)
	}
	args := []string{"--real-time", "--image", m.image, "--kernel", vmKernel, "--cpus", "1", "--memory", strconv.Itoa(m.memory) + "M", "--timeout", "0",
		"--out", filepath.Join(m.folder, "out"), "--copy", filepath.Join(m.vm, "cluster-node"), "--copy", filepath.Join(m.folder, "config")}
	if m.image == "units" {
		args = append(args, "--copy", filepath.Join(m.vm, "..", "deploy"))
	}
	for i, mac := range m.macs {
		args = append(args, "--tap", fmt.Sprintf("%d,%s", 3+i, mac)) // as ExtraFiles are numbered
	}
	args = append(args, "--", "./cluster-node", "run", m.name, m.address, m.control, strconv.Itoa(m.disk))
	cmd := exec.Command(filepath.Join(m.vm, "run"), args...)
	cmd.ExtraFiles = m.taps
	cmd.Env = append(os.Environ(), "TMPDIR="+m.folder)
	p, err := startProcess(cmd, m.log())
	if err != nil {
		return fmt.Errorf("machine %s: %w", m.name, err)
	}
	m.swap(p)
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	err = pollEvery(ctx, bootPoll, func() (bool, error) {
		select {
		case <-p.ended:
			return false, errors.New("it has ended")
		default:
		}
		_, err := m.docker.Ping(ctx)
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("machine %s does not come up: %w\n%s", m.name, err, lastLines(m.log()))
	}
	return nil
}

func (m *machine) log() string { return filepath.Join(m.folder, "log") }

// PowerOff has vm/run end, which ends the machine at once.
func (m *machine) PowerOff() error {
	p := m.swap(nil)
	if p == nil {
		return fmt.Errorf("machine %s is switched off", m.name)
	}
	p.end(syscall.SIGTERM)
	return nil
}

func (m *machine) Run(ctx context.Context, command string) (string, error) {
	if m.Off() {
		return "", fmt.Errorf("machine %s is switched off", m.name)
	}
	conn, err := m.dial(ctx, shellPort)
	if err != nil {
		return "", fmt.Errorf("machine %s: %w", m.name, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var said []byte
	if _, err = fmt.Fprintf(conn, "(%s\n) </dev/null 2>&1; status=$?; echo; echo $status; exit\n", command); err == nil {
		said, err = io.ReadAll(conn)
	}
	said = bytes.TrimSpace(said)
	end := bytes.LastIndexByte(said, '\n') + 1
	text, status := strings.TrimSpace(string(said[:end])), string(said[end:])
	if err == nil && status != "0" {
		err = fmt.Errorf("status %s: %s", status, text)
	}
	if err != nil {
		first, _, _ := strings.Cut(command, "\n")
		return text, fmt.Errorf("machine %s: %s: %w", m.name, first, err)
	}
	return text, nil
}

func (m *machine) Close() error {
	if p := m.swap(nil); p != nil {
		p.end(syscall.SIGTERM)
	}
	var errs []error
	if m.docker != nil {
		errs = append(errs, m.docker.Close())
	}
	for _, tap := range m.taps {
		errs = append(errs, tap.Close())
	}
	return errors.Join(errs...)
}

// lastLines is the end of a file.
func lastLines(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-8):], []byte("\n")))
}
