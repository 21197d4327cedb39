// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"weir/internal/host/dataplane/bpf"
	"weir/internal/test/cputime"
	"weir/internal/test/logtest"
)

// TestCostOfANode: agent and weir-kubernetes, as programs, with five pods that send. The bar is CPU
// time, which in virtual time is instructions:
//
//	vm/run --virtual-time --copy kube.test --copy bin/weir-kubernetes -- ./kube.test -test.run CostOfANode -test.v
func TestCostOfANode(t *testing.T) {
	if err := bpf.Supported(); err != nil {
		t.Skipf("skipped: needs a kernel with BPF qdiscs: %v", err)
	}
	if !alone(t) {
		return
	}
	const pods, most, window = 5, 5 * time.Millisecond, 60 * time.Second // most: of CPU time, in a second
	b, file, peer := realHost(t, "bpf", "20mbit")
	agent := exec.Command("weir", "agent", "--config", file)
	log := &logtest.Buffer{}
	agent.Stderr = log
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill()
		_ = agent.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	b.until("the agent answers", func() bool { _, err := b.api.Status(t.Context()); return err == nil })
	b.startRuntime()
	sh(t, "ip link set lo up") // where the API server is
	s := newAPIServer(t)
	for i := range pods {
		s.objects["pods"] = append(s.objects["pods"], annotated("Pod", "shop", fmt.Sprint("web-", i), "weir.dev/weight", "3"))
	}
	s.objects["namespaces"] = append(s.objects["namespaces"], annotated("Namespace", "", "shop"))
	program, _ := b.program(s, exec.Command)
	b.until("the runtime has the plugin", func() bool { block := b.runtime.BlockPluginSync(); block.Unblock(); return true })
	arrived := receive(t, peer)
	for i := range pods {
		sandbox, path := realPod(t, i, fmt.Sprint("shop/web-", i), "weir.dev/weight", "3")
		b.run(sandbox)
		flood(t, path)
	}
	b.until("all pods are workloads", func() bool {
		list, err := b.api.Workloads(t.Context())
		steered := 0
		for _, w := range list {
			if w.State == "active" && w.Policy.Weight == 3 {
				steered++
			}
		}
		return err == nil && steered == pods
	})
	time.Sleep(window) // the start
	spent := func() (both [2]time.Duration) {
		for i, pid := range []int{agent.Process.Pid, program.Process.Pid} {
			sum, err := cputime.Of(pid)
			if err != nil {
				t.Fatal(err)
			}
			both[i] = sum
		}
		return both
	}
	before := spent()
	count := arrived()
	time.Sleep(window)
	after := spent()
	var sent uint64
	for from, bytes := range arrived() {
		sent += bytes - count[from]
	}
	each := func(i int) time.Duration { return (after[i] - before[i]) / time.Duration(window/time.Second) }
	t.Logf("%d pods that send %.1f Mbit/s: agent %v, weir-kubernetes %v of CPU time in a second", pods, float64(sent)*8/1e6/window.Seconds(), each(0), each(1))
	if float64(sent)*8/1e6 < 19*window.Seconds() {
		t.Error("the pods did not fill the link")
	}
	if sum := each(0) + each(1); sum > most {
		t.Errorf("both take %v of CPU time in a second, want at most %v", sum, most)
	}
}
