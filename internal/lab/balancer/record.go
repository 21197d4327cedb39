// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/cgroup"
	"weir/internal/cluster/profile"
	"weir/internal/cluster/wire"
)

// program is one of table II, and how it is run.
type program struct {
	name    string
	command string
	settle  time.Duration // until it is measured, beyond warmUp
	paced   bool          // it does not want more of the CPU than it has got
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
	{name: "tsearch-4m", command: "stress-ng --tsearch 1 --tsearch-size 4194304", settle: 30 * time.Second},
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
	bed, err := newBed()
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
#   go run ./internal/lab/balancer record lab/c-balancer/programs.yaml

programs:
`

// machine is what was measured on.
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

// bed is two network namespaces with a link between them, and a cgroup in each
// hierarchy.
type bed struct {
	client, server string
	folders        []string
	id             string
}

func newBed() (b *bed, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("recording makes cgroups and network namespaces: run it as root")
	}
	suffix := fmt.Sprint(os.Getpid())
	b = &bed{client: "weir-rec-c" + suffix, server: "weir-rec-s" + suffix, id: fmt.Sprintf("%064d", os.Getpid())}
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

// kill ends what is in the cgroups: stress-ng's children have groups of their own.
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

// measure runs a program and takes the mean of what it uses. What it used of the CPU
// and what it waited for one are what it demands, if it takes all it can get: the
// programs have one thread. In a virtual machine even that is less than 1 at times,
// so the best sample counts.
func (b *bed) measure(p program) (mean wire.Usage, err error) {
	if p.paced { // a server for each, which may not have noticed that the last client has gone
		server := exec.Command("ip", "netns", "exec", b.server, "iperf3", "--server")
		server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := server.Start(); err != nil {
			return mean, err
		}
		defer func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		}()
		time.Sleep(sample)
	}
	// nsenter rather than ip netns exec, which hides the cgroups.
	script := ""
	for _, folder := range b.folders {
		script += "echo $$ >" + folder + "/cgroup.procs; "
	}
	c := exec.Command("nsenter", "--net=/run/netns/"+b.client, "sh", "-c", script+"exec "+p.command)
	c.Stdout, c.Stderr = io.Discard, io.Discard
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return mean, err
	}
	defer func() {
		b.kill()
		_ = c.Wait()
	}()
	time.Sleep(warmUp + p.settle)
	s := profile.New(profile.Options{Node: "recorded"})
	defer s.Close()
	list := []profile.Container{{ID: b.id, Name: p.name, PID: c.Process.Pid}}
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
