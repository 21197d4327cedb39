// SPDX-License-Identifier: Apache-2.0

package balancer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/base/cgroup"
	"weir/internal/cluster/profile"
	"weir/internal/core/wire"
)

// program is one of table II, and how it is run.
type program struct {
	name    string
	command string
	settle  time.Duration // until it is measured, beyond warmUp
	paced   bool          // it does not want more of the CPU than it has got: iperf
	once    string        // option that ends it after one operation, where that takes longer than a run
}

// programs run for longer than they are measured. The sizes are the paper's where it
// has one; the address is that of the other namespace.
var programs = []program{
	{name: "rgb", command: "stress-ng --cpu 1 --cpu-method rgb"},
	{name: "prime", command: "stress-ng --cpu 1 --cpu-method prime"},
	{name: "pi", command: "stress-ng --cpu 1 --cpu-method pi"},
	{name: "psi", command: "stress-ng --cpu 1 --cpu-method psi"},
	{name: "queens", command: "stress-ng --cpu 1 --cpu-method queens"},
	{name: "crypt", command: "stress-ng --crypt 1"},
	{name: "bsearch-4m", command: "stress-ng --bsearch 1 --bsearch-size 4194304"},
	{name: "tsearch-4m", command: "stress-ng --tsearch 1 --tsearch-size 4194304", settle: 30 * time.Second, once: "--tsearch-ops 1"},
	{name: "cache", command: "stress-ng --cache 1"},
	{name: "stream", command: "stress-ng --stream 1"},
	{name: "vm-50mb", command: "stress-ng --vm 1 --vm-bytes 50m"},
	{name: "iperf-100m", command: "iperf3 --client " + serverAddress + " --udp --bitrate 100M --time 60", paced: true},
	{name: "iperf-150m", command: "iperf3 --client " + serverAddress + " --udp --bitrate 150M --time 60", paced: true},
}

const (
	serverAddress = "10.213.0.1"
	clientAddress = "10.213.0.2"
	warmUp        = 3 * time.Second
	sample        = time.Second
	samples       = 10
)

// record measures all programs, one after the other, and writes the file.
func record(file string) error {
	bed, err := newBed(0)
	if err != nil {
		return err
	}
	defer bed.close()
	var out strings.Builder
	fmt.Fprintf(&out, recordHead, warmUp, samples*sample, time.Now().UTC().Format(time.DateOnly), machine())
	for _, p := range programs {
		u, err := bed.measure(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.command, err)
		}
		fmt.Fprintf(&out, "  # %s\n  %s: {cpu_cores: %.3f, memory_bytes: %d, block_io_bytes_per_second: %.0f, network_transmit_bps: %.0f, network_receive_bps: %.0f, move_bytes: %d}\n",
			p.command, p.name, u.CPUCores, u.MemoryBytes, u.BlockReadBytesPerSec+u.BlockWriteBytesPerSec, u.NetworkTransmitBps, u.NetworkReceiveBps, u.MemoryAnonymousBytes)
		fmt.Printf("%s: %+v\n", p.name, u)
	}
	return os.WriteFile(file, []byte(out.String()), 0o644)
}

const recordHead = `# What the programs of the C-Balancer paper's table II demand.
#
# Measured by the sampler of Weir's agents: each program alone in a cgroup and a
# network namespace of its own, %v after its start (30 s more for tsearch, which
# builds its tree first), the mean of %v. The machine had other things to do, and so
# had its own host; cpu_cores is what a program used and what it waited for a CPU
# (pressure stall information; each has one thread) in the best second of these, but
# for iperf the mean of what it used. move_bytes is the anonymous memory, which a
# checkpoint carries.
#
#   %s, %s
#   go run ./internal/dev/balancer record lab/c-balancer/programs.yaml

programs:
`

// machine describes the machine of the measurement.
func machine() string {
	model := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	version, _ := exec.Command("stress-ng", "--version").Output()
	return model + ", " + cmp.Or(strings.Join(strings.Fields(strings.SplitN(string(version), "(", 2)[0]), " "), "no stress-ng")
}

// bed is where one program runs: two network namespaces with a link between them,
// and a cgroup in each hierarchy.
type bed struct {
	client, server string
	folders        []string
	id             string
}

// newBed makes one; number tells it apart from the others of this process.
func newBed(number int) (b *bed, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("recording makes cgroups and network namespaces: run it as root")
	}
	suffix := fmt.Sprintf("%d-%d", os.Getpid(), number)
	b = &bed{client: "weir-rec-c" + suffix, server: "weir-rec-s" + suffix, id: fmt.Sprintf("%062d%02d", os.Getpid(), number)}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	for _, line := range []string{
		"netns add " + b.client, "netns add " + b.server,
		"-n " + b.client + " link add eth0 type veth peer name eth0 netns " + b.server,
		"-n " + b.client + " addr add " + clientAddress + "/24 dev eth0", "-n " + b.server + " addr add " + serverAddress + "/24 dev eth0",
		"-n " + b.client + " link set eth0 up", "-n " + b.server + " link set eth0 up",
	} {
		if text, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ip %s: %w: %s", line, err, text)
		}
	}
	mounts := map[string]bool{}
	for _, mount := range cgroup.Controllers() {
		mounts[mount] = true
	}
	if root := cgroup.Read().Root; root != "" {
		mounts[root] = true
	}
	for mount := range mounts {
		if folder := filepath.Join(mount, "weir-rec-"+b.id); os.Mkdir(folder, 0o755) == nil {
			b.folders = append(b.folders, folder)
		}
	}
	if len(b.folders) == 0 {
		return nil, errors.New("no cgroup can be made here")
	}
	return b, nil
}

func (b *bed) close() {
	for _, folder := range b.folders {
		for range 100 {
			if os.Remove(folder) == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for _, name := range []string{b.client, b.server} {
		_ = exec.Command("ip", "netns", "delete", name).Run()
	}
}

// kill ends the processes in the cgroups: stress-ng's children have groups of their own.
func (b *bed) kill() {
	for range 100 {
		text, err := os.ReadFile(b.folders[0] + "/cgroup.procs")
		if err != nil || len(text) == 0 {
			return
		}
		for line := range strings.Lines(string(text)) {
			if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// guest is a program that runs in a bed.
type guest struct {
	bed             *bed
	command, server *exec.Cmd // server is iperf's other end, outside of the cgroup; nil for all others
	printed, served bytes.Buffer
}

// serve prepares for a program; ready says when it can start. iperf gets a server of
// its own, which prints its report in JSON after one client.
func (b *bed) serve(p program) (g *guest, ready time.Duration, err error) {
	g = &guest{bed: b}
	if !p.paced {
		return g, 0, nil
	}
	g.server = exec.Command("ip", "netns", "exec", b.server, "iperf3", "--server", "--one-off", "--json")
	g.server.Stdout, g.server.Stderr = &g.served, &g.served
	g.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return g, sample, g.server.Start()
}

// start runs the command in the bed's namespace and cgroups.
func (g *guest) start(command string) error {
	// nsenter rather than ip netns exec, which hides the cgroups.
	script := ""
	for _, folder := range g.bed.folders {
		script += "echo $$ >" + folder + "/cgroup.procs; "
	}
	c := exec.Command("nsenter", "--net=/run/netns/"+g.bed.client, "sh", "-c", script+"exec "+command)
	c.Stdout, c.Stderr = &g.printed, &g.printed
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return err
	}
	g.command = c
	return nil
}

// wait is for the program, and its server, to end by themselves.
func (g *guest) wait() {
	if g.command != nil && g.command.ProcessState == nil {
		_ = g.command.Wait()
	}
	if g.server != nil && g.server.ProcessState == nil {
		_ = g.server.Wait()
	}
}

// kill ends both at once.
func (g *guest) kill() {
	g.bed.kill()
	if g.server != nil && g.server.Process != nil {
		_ = g.server.Process.Kill()
	}
}

// measure runs a program and takes the mean of what it uses. What it used of the CPU
// and what it waited for one are what it demands, if it takes all it can get: the
// programs have one thread. In a virtual machine even that is less than 1 at times,
// so the best sample counts.
func (b *bed) measure(p program) (mean wire.Usage, err error) {
	g, ready, err := b.serve(p)
	if err != nil {
		return mean, err
	}
	defer func() {
		g.kill()
		g.wait()
	}()
	time.Sleep(ready)
	if err := g.start(p.command); err != nil {
		return mean, err
	}
	time.Sleep(warmUp + p.settle)
	s := profile.New(profile.Options{Node: "recorded"})
	defer s.Close()
	list := []profile.Container{{ID: b.id, Name: p.name, PID: g.command.Process.Pid}}
	s.Sample(time.Now(), list)
	for range samples {
		time.Sleep(sample)
		got := s.Sample(time.Now(), list)
		if len(got.Containers) == 0 {
			return mean, errors.New("it has ended early")
		}
		u := got.Containers[0].Usage
		if u.CPUCores == 0 {
			return mean, errors.New("it does nothing")
		}
		if cpu := u.CPUCores; p.paced {
			mean.CPUCores += cpu / samples
		} else {
			if u.Pressure != nil {
				cpu += u.Pressure.CPU
			}
			mean.CPUCores = max(mean.CPUCores, min(cpu, 1)) // more is jitter of the moments
		}
		mean.MemoryBytes += u.MemoryBytes / samples
		mean.MemoryAnonymousBytes += u.MemoryAnonymousBytes / samples
		mean.BlockReadBytesPerSec += u.BlockReadBytesPerSec / samples
		mean.BlockWriteBytesPerSec += u.BlockWriteBytesPerSec / samples
		mean.NetworkTransmitBps += u.NetworkTransmitBps / samples
		mean.NetworkReceiveBps += u.NetworkReceiveBps / samples
	}
	return mean, nil
}
