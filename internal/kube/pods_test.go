// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	nriapi "github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	k8stesting "k8s.io/client-go/testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/host/dataplane"
	cluster "weir/internal/kube/decide"
)

// TestPodIsAWorkloadBeforeItsContainers: when the runtime may start containers, the class is
// there, with what the annotations say.
func TestPodIsAWorkloadBeforeItsContainers(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	web := pod("default/web", "s1", "weir.dev/weight", "3", "weir.dev/min", "20M", "kubernetes.io/egress-bandwidth", "40M", "kubernetes.io/ingress-bandwidth", "50M")
	b.run(web)
	want := "default/web weight 3 min 20 Mbit/s max 40 Mbit/s veth-s1\ningress: default/web weight 1 max 50 Mbit/s veth-s1"
	if got := b.state(); got != want {
		t.Errorf("when the sandbox runs eth0 has\n%s\nwant\n%s", got, want)
	}
	b.remove(web)
	b.expect("removed")
	if told := b.told(); len(told) > 0 {
		t.Errorf("Events: %q", told)
	}
}

// deleted has the API server no longer have a pod.
func (b *bed) deleted(name string) {
	b.t.Helper()
	namespace, name, _ := strings.Cut(name, "/")
	if err := b.client.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, namespace, name); err != nil {
		b.t.Error(err)
	}
}

// TestAnnotationsChange: what the API server says later counts, and a namespace's annotations
// make it a group.
func TestAnnotationsChange(t *testing.T) {
	b := newBed(t, "")
	b.settings.Weights[cluster.Burstable] = 2
	b.plugin()
	b.run(pod("shop/web", "s1", "weir.dev/max", "40M"))
	b.run(pod("shop/db", "s2", "weir.dev/group", "batch"))
	b.expect("begin", "ns.shop.batch weight 1", "shop/db weight 2 in ns.shop.batch veth-s2", "shop/web weight 2 max 40 Mbit/s veth-s1")
	b.annotate("shop/web", "weir.dev/weight", "5", "weir.dev/ingress.min", "3M")
	b.expect("annotated", "ns.shop.batch weight 1", "shop/db weight 2 in ns.shop.batch veth-s2", "shop/web weight 5 veth-s1",
		"ingress: shop/web weight 1 min 3 Mbit/s veth-s1")
	b.annotate("shop/web")
	b.annotate("shop/db")
	b.expect("nothing annotated", "shop/db weight 2 veth-s2", "shop/web weight 2 veth-s1")
	b.annotateNamespace("shop", "weir.dev/max", "50M", "weir.dev/min", "10M")
	b.expect("the namespace is a group", "ns.shop weight 1 min 10 Mbit/s max 50 Mbit/s", "shop/db weight 2 in ns.shop veth-s2", "shop/web weight 2 in ns.shop veth-s1")
	b.annotateNamespace("shop", "weir.dev/max", "60M")
	b.expect("another max", "ns.shop weight 1 max 60 Mbit/s", "shop/db weight 2 in ns.shop veth-s2", "shop/web weight 2 in ns.shop veth-s1")
	b.annotateNamespace("shop")
	b.expect("it is none", "shop/db weight 2 veth-s2", "shop/web weight 2 veth-s1")
	if told := b.told(); len(told) > 0 {
		t.Errorf("Events: %q", told)
	}
}

// TestPodsThereBefore: pods that run when Weir comes, a host-network pod, and a static pod whose
// mirror is annotated.
func TestPodsThereBefore(t *testing.T) {
	b := newBed(t, "")
	hosted := pod("kube-system/proxy", "s2", "kubernetes.io/egress-bandwidth", "5M")
	hosted.Linux.Namespaces = nil
	static := pod("kube-system/etcd", "s3")
	static.Uid = "0123"
	ended := pod("shop/web", "s0", "weir.dev/weight", "9")
	ended.Linux.Namespaces[0].Path = "/run/netns/of-a-sandbox-that-has-ended"
	for _, s := range []*nriapi.PodSandbox{pod("shop/web", "s1", "weir.dev/weight", "3"), hosted, static, ended} {
		b.pods[s.Id] = s
	}
	b.annotate("kube-system/etcd", "kubernetes.io/config.mirror", "0123", "weir.dev/min", "2M")
	b.annotate("shop/web", "weir.dev/weight", "4")
	b.plugin()
	b.expect("there before", "shop/web weight 4 veth-s1", "kube-system/etcd weight 1 min 2 Mbit/s veth-s3", "kube-system/proxy weight 1 max 5 Mbit/s cgroup")
	w, err := b.api.Workload(t.Context(), "kube-system/proxy")
	if want := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pods2.slice"; err != nil || len(w.Cgroups) != 1 || w.Cgroups[0] != want {
		t.Errorf("the cgroup of a host-network pod: %q, %v; want %s", w.Cgroups, err, want)
	}
	if told := b.told(); len(told) > 0 {
		t.Errorf("Events: %q", told)
	}
}

// TestSandboxMadeAnew: a pod keeps class and min while it gets another sandbox.
func TestSandboxMadeAnew(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	first, second := pod("shop/web", "s1", "weir.dev/min", "60M"), pod("shop/web", "s2", "weir.dev/min", "60M")
	b.run(first)
	before, err := b.api.Workload(t.Context(), "shop/web")
	if err != nil {
		t.Fatal(err)
	}
	b.stop(first)
	b.run(pod("shop/greedy", "s9", "weir.dev/min", "50M"))
	b.run(second)
	b.remove(first)
	b.expect("another sandbox", "shop/greedy weight 1 veth-s9", "shop/web weight 1 min 60 Mbit/s veth-s2")
	after, err := b.api.Workload(t.Context(), "shop/web")
	if err != nil || after.Class != before.Class {
		t.Errorf("class %d, was %d, %v", after.Class, before.Class, err)
	}
	b.stop(second)
	b.expect("ended, and did not come back", "shop/greedy weight 1 min 50 Mbit/s veth-s9")
}

// TestRefusedMinIsToldAndHeldLater: a min that the node has no room for is an Event, once; the
// other annotations hold, and so does the min when there is room.
func TestRefusedMinIsToldAndHeldLater(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	first := pod("shop/first", "s1", "weir.dev/min", "80M")
	b.run(first)
	b.run(pod("shop/second", "s2", "weir.dev/min", "40M", "weir.dev/weight", "4", "weir.dev/max", "50m"))
	b.expect("no room", "shop/first weight 1 min 80 Mbit/s veth-s1", "shop/second weight 4 veth-s2")
	time.Sleep(700 * time.Millisecond) // several comparisons
	told := b.told()
	want := []string{
		`Pod shop/second InvalidAnnotation: annotation weir.dev/max "50m": m is milli to Kubernetes, mega to others; write 50M or 50mbit; the other annotations hold`,
		`Pod shop/second PolicyNotInForce: annotation weir.dev/min "40mbit": not in force on this node: link eth0 has no room for it: asked 40 Mbit/s, reserved 80 Mbit/s of 100 Mbit/s, free 20 Mbit/s; ask for 20mbit or less, or lower the min of shop/first (80 Mbit/s)`,
	}
	if !slices.Equal(told, want) {
		t.Errorf("Events:\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	b.remove(first)
	b.expect("room", "shop/second weight 4 min 40 Mbit/s veth-s2")
}

// TestPluginDies: nothing changes while there is no plugin, and the next one changes the
// differences only.
func TestPluginDies(t *testing.T) {
	b := newBed(t, "")
	stop := b.plugin()
	web, db := pod("shop/web", "s1", "weir.dev/min", "20M"), pod("shop/db", "s2", "weir.dev/weight", "2")
	b.annotateNamespace("shop", "weir.dev/max", "60M")
	b.run(web)
	b.run(db)
	in := []string{"ns.shop weight 1 min 20 Mbit/s max 60 Mbit/s", "shop/db weight 2 in ns.shop veth-s2", "shop/web weight 1 min 20 Mbit/s in ns.shop veth-s1"}
	b.expect("begin", in...)
	stop()
	b.run(pod("shop/new", "s3", "weir.dev/weight", "3"))
	b.remove(db)
	b.expect("no plugin", in...)
	sets := b.kernel.Sets("eth0")
	b.plugin()
	b.expect("another plugin", "ns.shop weight 1 min 20 Mbit/s max 60 Mbit/s", "shop/new weight 3 in ns.shop veth-s3", "shop/web weight 1 min 20 Mbit/s in ns.shop veth-s1")
	if after := b.kernel.Sets("eth0"); after-sets > 4 { // one workload less; one more, and its veth
		t.Errorf("%d changes of the kernel's state", after-sets)
	}
	sets = b.kernel.Sets("eth0")
	time.Sleep(700 * time.Millisecond)
	if after := b.kernel.Sets("eth0"); after != sets {
		t.Errorf("%d changes of the kernel's state although nothing changes", after-sets)
	}
}

// TestNothingChangesNothingIsAsked: a comparison that finds no difference makes no request that
// changes something; the audit log would have it.
func TestNothingChangesNothingIsAsked(t *testing.T) {
	b := newBed(t, "")
	b.settings.Weights[cluster.Burstable] = 2
	b.plugin()
	b.annotateNamespace("shop", "weir.dev/max", "60M", "weir.dev/min", "50%", "weir.dev/weight", "2")
	b.run(pod("shop/web", "s1", "weir.dev/min", "20M", "weir.dev/discipline", "llq", "weir.dev/queues", "voice: {rate: 1mbit, match: [{udp: 5001}]}\nrest: {}",
		"weir.dev/aqm", "off", "weir.dev/limit-packets", "200", "weir.dev/ingress.max", "12.5%", "weir.dev/ingress.discipline", "fifo"))
	b.run(pod("other/db", "s2", "weir.dev/group", "batch", "kubernetes.io/ingress-bandwidth", "10M"))
	b.until("all is there", func() bool { return strings.Count(b.state(), "veth-") == 4 })
	before := b.changes()
	time.Sleep(time.Second) // three comparisons
	if after := b.changes(); !slices.Equal(after, before) {
		t.Errorf("asked: %q", after[len(before):])
	}
}

// TestAgentRestarts: an agent that lost its state gets it within moments, and one that kept it
// is asked for nothing.
func TestAgentRestarts(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(map[bool]string{true: "state lost", false: "state kept"}[lost], func(t *testing.T) {
			b := newBed(t, "")
			b.plugin()
			b.annotateNamespace("shop", "weir.dev/max", "60M")
			b.run(pod("shop/web", "s1", "weir.dev/min", "20M"))
			want := []string{"ns.shop weight 1 min 20 Mbit/s max 60 Mbit/s", "shop/web weight 1 min 20 Mbit/s in ns.shop veth-s1"}
			b.expect("begin", want...)
			b.stopAgent()
			late := pod("shop/late", "s2")
			began := time.Now()
			b.run(late)
			if took := time.Since(began); took > time.Second {
				t.Errorf("without an agent a sandbox takes %v", took)
			}
			if lost {
				if err := os.Remove(filepath.Join(b.dir, "state.json")); err != nil {
					t.Fatal(err)
				}
				b.veths.change(func() { clear(b.veths.list) })
			}
			b.startAgent()
			b.expect("another agent", append(want, "shop/late weight 1 in ns.shop veth-s2")...)
		})
	}
}

// TestAnnotationsStayBelowTheAdministrator: weir.yaml of the node is a ceiling for annotations of
// pods and of namespaces, and each that is above it is an Event. The weight of a pod's class counts
// where weir.yaml gives none.
func TestAnnotationsStayBelowTheAdministrator(t *testing.T) {
	b := newBed(t, `defaults: {max: 20mbit}
workloads: {"shop/*": {max: 1mbit, weight: 2}}
groups: {ns.big: {max: 30mbit, weight: 5}}`)
	b.settings.Weights[cluster.Burstable] = 3
	b.plugin()
	b.annotateNamespace("big", "weir.dev/max", "90M", "weir.dev/weight", "4", "weir.dev/min", "5M")
	b.run(pod("shop/web", "s1", "weir.dev/max", "none", "weir.dev/weight", "10000", "weir.dev/limit-packets", "50"))
	b.run(pod("shop/small", "s2", "weir.dev/max", "500k", "weir.dev/weight", "1"))
	b.run(pod("big/one", "s3", "kubernetes.io/egress-bandwidth", "25M"))
	b.expect("held to weir.yaml", "ns.big weight 4 min 5 Mbit/s max 30 Mbit/s", "shop/web weight 2 max 1 Mbit/s veth-s1", "shop/small weight 1 max 500 kbit/s veth-s2",
		"big/one weight 3 max 20 Mbit/s in ns.big veth-s3")
	time.Sleep(300 * time.Millisecond) // several comparisons
	want := []string{
		`Pod shop/web PolicyNotInForce: annotation weir.dev/max "none": not in force on this node: the administrator's max is 1mbit; write 1mbit or less, or raise it in weir.yaml`,
		`Pod shop/web PolicyNotInForce: annotation weir.dev/weight "10000": not in force on this node: the administrator's weight is 2; write 2 or less, or raise it in weir.yaml`,
		`Pod big/one PolicyNotInForce: annotation kubernetes.io/egress-bandwidth "25mbit": not in force on this node: the administrator's max is 20mbit; write 20mbit or less, or raise it in weir.yaml`,
		`Namespace /big PolicyNotInForce: annotation weir.dev/max "90mbit": not in force on this node: the administrator's max is 30mbit; write 30mbit or less, or raise it in weir.yaml`,
	}
	told := b.told()
	for _, sentence := range want {
		if !slices.Contains(told, sentence) {
			t.Errorf("no Event says %s", sentence)
		}
	}
	if len(told) != len(want) {
		t.Errorf("Events: %q", told)
	}
	w, err := b.api.Workload(t.Context(), "shop/web")
	if err != nil || !strings.Contains(w.Note, "asked max none does not count: the administrator's max is 1mbit") || len(w.Cut) != 2 {
		t.Errorf("%q, %+v, %v", w.Note, w.Cut, err)
	}
}

// TestSomeoneSetsAPod: what an operator sets for a pod holds beside its annotations, which say the
// rest; what weir detach does to a pod is put back.
func TestSomeoneSetsAPod(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	b.run(pod("shop/web", "s1", "weir.dev/max", "40M"))
	if _, err := b.api.Set(t.Context(), "shop/web", apitest.Change("max", "10mbit", "min", "5mbit"), false); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // several comparisons
	b.expect("after weir set", "shop/web weight 1 min 5 Mbit/s max 10 Mbit/s veth-s1")
	b.annotate("shop/web", "weir.dev/max", "40M", "weir.dev/limit-packets", "100")
	b.annotate("shop/web", "weir.dev/max", "5M", "weir.dev/weight", "3")
	b.expect("annotated", "shop/web weight 3 min 5 Mbit/s max 10 Mbit/s veth-s1")
	if _, err := b.api.Set(t.Context(), "shop/web", api.PolicyChange{Options: api.Options{Reset: true}}, false); err != nil {
		t.Fatal(err)
	}
	b.annotate("shop/web", "weir.dev/max", "40M")
	b.expect("after a reset", "shop/web weight 1 max 40 Mbit/s veth-s1")
	if _, err := b.api.Detach(t.Context(), "shop/web", false); err != nil {
		t.Fatal(err)
	}
	b.expect("after weir detach", "shop/web weight 1 max 40 Mbit/s veth-s1")
}

// TestRuntimeRestarts: pods stay while the runtime is away, and the next list counts.
func TestRuntimeRestarts(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	web, db := pod("shop/web", "s1"), pod("shop/db", "s2")
	b.run(web)
	b.run(db)
	b.stopRuntime()
	delete(b.pods, "s2")
	time.Sleep(100 * time.Millisecond)
	b.expect("no runtime", "shop/web weight 1 veth-s1", "shop/db weight 1 veth-s2")
	b.startRuntime()
	b.expect("another runtime", "shop/web weight 1 veth-s1")
}

// TestRuntimeForgets: a runtime that was started anew does not say when the sandboxes end that were
// there before (containerd 2.4). Then the API server counts: a pod that it has deleted is given up,
// also if the next runtime lists it still; one that it never had, a static one, is not.
func TestRuntimeForgets(t *testing.T) {
	b := newBed(t, "")
	b.annotate("shop/web", "weir.dev/weight", "2")
	b.annotate("shop/db", "weir.dev/weight", "3")
	b.plugin()
	hosted := pod("shop/db", "s2")
	hosted.Linux.Namespaces = nil
	b.run(pod("shop/web", "s1"))
	b.run(hosted)
	b.stopRuntime()
	b.startRuntime()
	b.expect("another runtime", "shop/web weight 2 veth-s1", "shop/db weight 3 cgroup")
	b.run(pod("kube-system/static", "s3"))
	b.deletePod("shop/web")
	b.deletePod("shop/db")
	b.expect("without a word of the runtime", "kube-system/static weight 1 veth-s3")
	b.stopRuntime()
	b.startRuntime()
	time.Sleep(200 * time.Millisecond)
	b.expect("a third runtime, which lists them", "kube-system/static weight 1 veth-s3")
}

// TestMuteRuntime: a runtime whose connection is open and that says nothing of a pod, or of its
// next sandbox, is asked for all that there are; one that has no sandbox of a pod is not asked all
// the time.
func TestMuteRuntime(t *testing.T) {
	b := newBed(t, "")
	b.mute = 300 * time.Millisecond
	b.plugin()
	b.run(pod("shop/web", "s1"))
	b.expect("told", "shop/web weight 1 veth-s1")
	b.annotate("shop/db", "weir.dev/weight", "3")
	first := pod("shop/db", "s2")
	netns := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(netns, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.Linux.Namespaces[0].Path = netns
	b.there(first)
	b.expect("a pod that the runtime does not tell of", "shop/web weight 1 veth-s1", "shop/db weight 3 veth-s2")
	if err := os.Remove(netns); err != nil {
		t.Fatal(err)
	}
	b.there(pod("shop/db", "s4"))
	b.expect("its next sandbox", "shop/web weight 1 veth-s1", "shop/db weight 3 veth-s4")

	b.annotate("shop/late", "weir.dev/weight", "5")
	times := func() int { return strings.Count(b.log.String(), "container runtime is there") }
	before := times()
	b.until("the runtime is asked for it", func() bool { return times() > before })
	time.Sleep(20 * b.mute)
	if n := times() - before; n > 6 {
		t.Errorf("the runtime is asked %d times in %v for a pod that has no sandbox", n, 20*b.mute)
	}
	b.run(pod("shop/late", "s3"))
	b.expect("told later", "shop/web weight 1 veth-s1", "shop/db weight 3 veth-s4", "shop/late weight 5 veth-s3")
}

// TestUnknownCluster: before the API server has answered, pods get what their sandboxes say, and
// what is in force stays.
func TestUnknownCluster(t *testing.T) {
	b := newBed(t, "")
	stop := b.plugin()
	b.annotateNamespace("shop", "weir.dev/max", "60M")
	b.annotate("shop/web", "weir.dev/weight", "7")
	b.run(pod("shop/web", "s1", "weir.dev/weight", "3"))
	in := []string{"ns.shop weight 1 max 60 Mbit/s", "shop/web weight 7 in ns.shop veth-s1"}
	b.expect("begin", in...)
	stop()
	away := errors.New("connection refused")
	b.client.PrependReactor("list", "*", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, away })
	b.pluginAlone()
	b.run(pod("shop/new", "s2", "weir.dev/weight", "4"))
	b.run(pod("shop/web", "s3", "weir.dev/weight", "3"))
	b.expect("no API server", "ns.shop weight 1 max 60 Mbit/s", "shop/new weight 4 veth-s2", "shop/web weight 3 in ns.shop veth-s3")
	if told := b.told(); len(told) > 0 {
		t.Errorf("Events: %q", told)
	}
}

// TestChurn: 500 pods come and go, and leave nothing.
func TestChurn(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	b.annotateNamespace("team-0", "weir.dev/max", "50M")
	b.run(pod("stay/web", "s0", "weir.dev/min", "10M"))
	var slowest time.Duration
	for i := range 500 {
		name := fmt.Sprintf("team-%d/pod-%d", i%3, i)
		annotations := []string{"weir.dev/min", "20M", "weir.dev/weight", strconv.Itoa(1 + i%9)}
		if i%5 == 0 {
			annotations = append(annotations, "weir.dev/group", fmt.Sprint("g", i%2))
		}
		s := pod(name, fmt.Sprint("c", i), annotations...)
		b.annotate(name, annotations...)
		began := time.Now()
		b.run(s)
		slowest = max(slowest, time.Since(began))
		if i%7 == 0 {
			b.stop(s)
		}
		b.deleted(name)
		b.remove(s)
		if i%20 == 0 { // the fake API server keeps 100 messages
			b.annotate("stay/web", "weir.dev/min", "10M", "weir.dev/weight", strconv.Itoa(i+1))
			b.until("the API server's messages have arrived", func() bool { return strings.Contains(b.state(), fmt.Sprintf("stay/web weight %d min", i+1)) })
		}
	}
	b.expect("after the churn", "stay/web weight 481 min 10 Mbit/s veth-s0")
	list, err := b.api.Workloads(t.Context())
	if err != nil || len(list) != 2 { // and the host
		t.Errorf("%d workloads, %v", len(list), err)
	}
	status, err := b.api.Status(t.Context())
	if err != nil || status.Links[0].ReservedBps != 10e6 || len(status.Groups) != 0 {
		t.Errorf("reserved %d bit/s, %d groups, %v", status.Links[0].ReservedBps, len(status.Groups), err)
	}
	state, err := os.ReadFile(filepath.Join(b.dir, "state.json"))
	if err != nil || strings.Count(string(state), `"pod":`) > 2 { // its attachment, and the source's name
		t.Errorf("state.json: %v\n%.2000s", err, state)
	}
	t.Logf("slowest sandbox: %v", slowest)
}

// TestNoGroupsHere: on a kernel whose backend has no groups, a namespace that wants to be one is
// told once, and its pods keep their own policies.
func TestNoGroupsHere(t *testing.T) {
	b := bareBed(t)
	b.config = "links: [{device: eth0, egress: 100mbit}]"
	b.kernel.Lack(dataplane.Abilities{NoGroups: true})
	b.startAgent()
	b.startRuntime()
	b.annotateNamespace("shop", "weir.dev/max", "60M")
	b.plugin()
	b.run(pod("shop/web", "s1", "weir.dev/weight", "3"))
	b.run(pod("shop/db", "s2", "weir.dev/max", "5M"))
	b.expect("no groups", "shop/web weight 3 veth-s1", "shop/db weight 1 max 5 Mbit/s veth-s2")
	time.Sleep(400 * time.Millisecond)
	if told := b.told(); len(told) != 1 || !strings.HasPrefix(told[0], "Namespace /shop PolicyNotInForce: ") || !strings.Contains(told[0], "no groups") {
		t.Errorf("Events: %q", told)
	}
}
