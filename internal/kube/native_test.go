// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nriapi "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/face/server"
	"weir/internal/host/daemon"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/tc"
)

// alone runs a test once more in a process of its own, which is in a new network namespace as a
// whole. It returns true there.
func alone(t *testing.T) bool {
	t.Helper()
	const inside = "WEIR_KUBERNETES_NATIVE"
	if os.Getenv(inside) != "" {
		return true
	}
	run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	netnstest.Alone(t, run)
	run.Env = append(os.Environ(), inside+"=1")
	out, err := run.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// sh runs a line of shell.
func sh(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// realBed is a bed in a network namespace of its own: the agent steers a real device, up0, behind
// which 10.98.0.2 is, in a namespace whose path is returned.
func realBed(t *testing.T, backend, rate string) (b *bed, peer string) {
	t.Helper()
	b, file, peer := realHost(t, backend, rate)
	a, err := daemon.FromConfig(file, daemon.Overrides{}, b.logger())
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(a, server.Options{Socket: b.socket(), Log: b.logger()})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() { _ = s.Serve(ctx) })
	parts.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { cancel(); parts.Wait() })
	b.startRuntime()
	b.plugin()
	return b, peer
}

// realHost is a bed with a real device, and the agent's configuration.
func realHost(t *testing.T, backend, rate string) (b *bed, file, peer string) {
	t.Helper()
	peer = newNetns(t)
	sh(t, "echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6")
	sh(t, "ip link add up0 type veth peer name far0 netns "+peer+"; ip addr add 10.98.0.1/24 dev up0; ip link set up0 up; ip neigh add 10.98.0.2 lladdr 02:00:00:00:00:02 dev up0")
	sh(t, "nsenter --net="+peer+" sh -c 'ip link set far0 address 02:00:00:00:00:02 up; ip addr add 10.98.0.2/24 dev far0; ip route add 10.99.0.0/16 dev far0'")
	b = bareBed(t)
	file = filepath.Join(b.dir, "weir.yaml")
	text := fmt.Sprintf("links: [{device: up0, egress: %s}]\ndocker: {enabled: false}\nbackend: %s\nstate_dir: %s\nsocket: %s\ngroup: root\n", rate, backend, b.dir, b.socket())
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return b, file, peer
}

// realPod makes the network of pod number i, which has 10.99.i.2, and returns its sandbox, which
// does not run yet, and the path of its namespace.
func realPod(t *testing.T, i int, name string, annotations ...string) (sandbox *nriapi.PodSandbox, path string) {
	t.Helper()
	path = newNetns(t)
	sh(t, fmt.Sprintf("ip link add pod%d type veth peer name eth0 netns %s; ip addr add 10.99.%d.1/24 dev pod%d; ip link set pod%d up", i, path, i, i, i))
	sh(t, fmt.Sprintf("nsenter --net=%s sh -c 'ip addr add 10.99.%d.2/24 dev eth0; ip link set eth0 up; ip route add default via 10.99.%d.1'", path, i, i))
	sandbox = pod(name, fmt.Sprint("s", i), annotations...)
	sandbox.Linux.Namespaces[0].Path = path
	return sandbox, path
}

// TestNative starts pods in real network namespaces, beside an agent with the tc backend: the
// first packet of each is in its class. It prints how long a sandbox and a container wait for that.
func TestNative(t *testing.T) {
	if err := tc.Supported(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	if !alone(t) {
		return
	}
	b, _ := realBed(t, "tc", "100mbit")
	const pods = 20
	var took, whole []time.Duration // until the sandbox may go on, and until its first container may start at once
	for i := range pods {
		sandbox, path := realPod(t, i, fmt.Sprint("shop/web-", i), "weir.dev/weight", "3", "weir.dev/min", "1M")
		began := time.Now()
		b.sandbox(sandbox)
		took = append(took, time.Since(began))
		b.container(sandbox)
		whole = append(whole, time.Since(began))
		sendFrom(t, path, "10.98.0.2:9")
	}
	b.until("the first packet of each pod is in its class", func() bool {
		for i := range pods {
			w, err := b.api.Workload(t.Context(), fmt.Sprint("shop/web-", i))
			if err != nil || w.State != "active" || w.Links[0].SentPackets != 1 || w.Links[0].MinBps != 1e6 {
				return false
			}
		}
		return true
	})
	slices.Sort(took)
	slices.Sort(whole)
	t.Logf("a sandbox waits %v (median of %d), %v at most; its pod has a class after %v, %v at most, of which the kernel's grace period, once, is %v (median)",
		took[pods/2].Round(100*time.Microsecond), pods, took[pods-1].Round(100*time.Microsecond),
		whole[pods/2].Round(100*time.Microsecond), whole[pods-1].Round(100*time.Microsecond), gracePeriod(t).Round(100*time.Microsecond))
	out, err := exec.Command("tc", "class", "show", "dev", "up0").CombinedOutput()
	if n := strings.Count(string(out), "class htb 77e1:"); err != nil || n < pods {
		t.Errorf("%d classes, %v:\n%s", n, err, out)
	}
}

// gracePeriod returns the median of how long the kernel takes to wait until no CPU is in code
// that reads what was replaced (RCU). Attaching a program to a device by tcx waits for it once.
func gracePeriod(t *testing.T) time.Duration {
	t.Helper()
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	var took []time.Duration
	for range 21 {
		time.Sleep(13 * time.Millisecond)
		began := time.Now()
		if _, _, no := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); no != 0 {
			t.Logf("grace period: %v", no)
			return 0
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// newNetns makes a network namespace that ends with the test, and returns its path.
func newNetns(t *testing.T) string {
	t.Helper()
	ns, err := nsthread.New(func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(ns))
}

// sendFrom sends one datagram from a network namespace.
func sendFrom(t *testing.T, path, to string) {
	t.Helper()
	err := nsthread.InPath(path, func() error {
		conn, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("first"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
