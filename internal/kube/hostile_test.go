// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir/internal/base/cgroup/cgrouptest"
	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/kube/decide"
	"weir/internal/test/boundtest"
)

var long = flag.Bool("long", false, "run the tests at their full size")

// memoryMax is the limit of the container "kubernetes" in deploy/helm/weir/values.yaml.
const memoryMax = 256 << 20

// hostilePods are how many pods have their annotations changed at once.
const hostilePods = 10

// TestHostilePods runs weir-kubernetes as a process under its container's limit. The annotations
// of ten pods, and now and then of their namespace, are drawn at random over and over: 10,000
// with -long, 1,000 without. The process goes on, none costs it more than 100 ms of CPU time,
// and a pod beside them has what its own annotations say.
func TestHostilePods(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	rounds := 100
	if *long {
		rounds = 1000
	}
	limit := cgrouptest.Limit(t, memoryMax)
	b, s := newBed(t, ""), newAPIServer(t)
	h := &hostileObjects{bed: b, server: s, seed: uint64(time.Now().UnixNano()), names: append(policy.AllNames(), "nosuch")}
	h.random = rand.New(rand.NewPCG(h.seed, 44))
	for i := range hostilePods {
		h.place(fmt.Sprintf("rogue/p%d", i))
	}
	h.place("shop/right")
	s.objects["namespaces"] = []metav1.PartialObjectMetadata{annotated("Namespace", "", "rogue"), annotated("Namespace", "", "shop")}
	c, log := b.program(s, limit.Command)
	h.pid = c.Process.Pid
	b.until("all pods are workloads", func() bool { return strings.Count(b.state(), "veth-") == hostilePods+1 })
	b.until("the objects are watched", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.watches["pods"]) > 0 && len(s.watches["namespaces"]) > 0
	})
	var costs []time.Duration
	for range rounds {
		list := h.draw()
		costs = append(costs, h.within(list))
		if t.Failed() {
			t.FailNow()
		}
	}
	slices.Sort(costs)
	t.Logf("seed %d: %d annotated pods; a round of %d takes %v of CPU time in the middle and %v at most, %d rounds and parts of them were tried; memory %d MB at most of %d; %d Events; %d lines of the log",
		h.seed, rounds*hostilePods, hostilePods, costs[len(costs)/2], costs[len(costs)-1], h.rounds, limit.Most()>>20, memoryMax>>20, len(s.told()), strings.Count(log.String(), "\n"))
	if killed := limit.Killed(t); killed != 0 {
		t.Errorf("the kernel has ended %d processes", killed)
	}
}

// hostileObjects are pods of the namespace rogue beside shop/right.
type hostileObjects struct {
	*bed
	server  *apiServer
	pid     int
	seed    uint64
	random  *rand.Rand
	names   []string
	version int
	weight  int // that shop/right has
	rounds  int // so far
}

// place has the pod's sandbox run, and the API server know the pod.
func (h *hostileObjects) place(of string) {
	namespace, name, _ := strings.Cut(of, "/")
	sandbox := pod(of, fmt.Sprint("s", len(h.pods)))
	h.pods[sandbox.Id] = sandbox
	h.server.objects["pods"] = append(h.server.objects["pods"], annotated("Pod", namespace, name))
}

// draw returns what the API server says of the hostile pods, or of their namespace, next.
func (h *hostileObjects) draw() (list []metav1.PartialObjectMetadata) {
	for i := range hostilePods {
		var annotations []string
		for name, text := range boundtest.Named(h.random, h.names, 50<<10) {
			annotations = append(annotations, decide.Annotation(name), text)
		}
		switch h.random.IntN(20) {
		case 0:
			for i := range 200 {
				annotations = append(annotations, fmt.Sprintf("weir.dev/a%03d", i), boundtest.Draw(h.random, 1000))
			}
		case 1:
			annotations = append(annotations, "weir.dev/"+boundtest.Draw(h.random, 250), boundtest.Draw(h.random, 200<<10))
		case 2:
			annotations = append(annotations, "kubernetes.io/egress-bandwidth", boundtest.Draw(h.random, 200<<10))
		}
		kind, namespace, name := "Pod", "rogue", fmt.Sprintf("p%d", i)
		if h.random.IntN(20) == 0 {
			kind, namespace, name = "Namespace", "", "rogue"
		}
		list = append(list, annotated(kind, namespace, name, annotations...))
	}
	return list
}

// round has the API server say these, and of the pod beside them another weight than before. It
// returns the CPU time that the process has used until that weight is in force.
func (h *hostileObjects) round(list []metav1.PartialObjectMetadata) time.Duration {
	h.t.Helper()
	before := h.used()
	h.rounds++
	h.weight = 1 + h.weight%7
	for _, o := range append(slices.Clone(list), annotated("Pod", "shop", "right", "weir.dev/weight", fmt.Sprint(h.weight))) {
		h.version++
		o.ResourceVersion = fmt.Sprint(1 + h.version)
		resource := strings.ToLower(o.ManagedFields[0].Manager) + "s"
		h.server.mu.Lock()
		watches := slices.Clone(h.server.watches[resource])
		h.server.mu.Unlock()
		for _, w := range watches {
			w <- o
		}
	}
	h.until("the pod beside has its weight", func() bool {
		if unix.Kill(h.pid, 0) != nil {
			h.t.Fatal("weir-kubernetes has ended")
		}
		return strings.Contains(h.state(), fmt.Sprintf("shop/right weight %d veth-", h.weight))
	})
	return h.used() - before
}

// within holds the objects to what each may cost, and returns what they cost together. Those that
// cost more than one may are halved until one is at fault, or none: together they take longer where
// the machine is slow. What one costs is counted beyond the same without annotations.
func (h *hostileObjects) within(list []metav1.PartialObjectMetadata) time.Duration {
	h.t.Helper()
	cost := h.round(list)
	switch half := len(list) / 2; {
	case cost <= bound.CPU:
	case half > 0:
		h.within(list[:half])
		h.within(list[half:])
	default:
		plain := list[0].DeepCopy()
		plain.Annotations = nil
		if alone := boundtest.Least(bound.CPU, func() time.Duration {
			without := h.round([]metav1.PartialObjectMetadata{*plain})
			return h.round(list) - without
		}); alone > bound.CPU {
			h.t.Errorf("an object takes %v of CPU time, %v are the most: %.600q", alone, bound.CPU, list[0].Annotations)
		}
	}
	return cost
}

// used returns the CPU time that the process has used so far.
func (h *hostileObjects) used() time.Duration {
	h.t.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^h.pid<<3|2), &used); err != nil { // as clock_getcpuclockid makes it
		h.t.Fatalf("weir-kubernetes has ended: %v", err)
	}
	return time.Duration(used.Nano())
}
