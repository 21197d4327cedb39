// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir/internal/test/logtest"
)

// apiServer answers what weir-kubernetes asks of an API server, over HTTP.
type apiServer struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string][]metav1.PartialObjectMetadata // by resource
	requests []string
	events   []string
	watches  map[string][]chan metav1.PartialObjectMetadata
}

func newAPIServer(t *testing.T) *apiServer {
	s := &apiServer{objects: map[string][]metav1.PartialObjectMetadata{}, watches: map[string][]chan metav1.PartialObjectMetadata{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/{resource}", s.list)
	mux.HandleFunc("POST /api/v1/namespaces/{namespace}/events", s.event)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// kubeconfig writes a file that names the server.
func (s *apiServer) kubeconfig(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %s}}]\nusers: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	resource, query := r.PathValue("resource"), r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	if query.Get("sendInitialEvents") == "true" { // as a server before 1.32 answers
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422})
		return
	}
	watch := query.Get("watch") != ""
	s.mu.Lock()
	s.requests = append(s.requests, fmt.Sprintf("%s %s watch=%t", resource, query.Get("fieldSelector"), watch))
	news := make(chan metav1.PartialObjectMetadata, 100)
	if watch {
		s.watches[resource] = append(s.watches[resource], news)
	}
	items := slices.Clone(s.objects[resource])
	s.mu.Unlock()
	if !watch {
		_ = json.NewEncoder(w).Encode(metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: items})
		return
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case o := <-news:
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": o})
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func (s *apiServer) event(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Reason, Message, Type string
		Source                struct{ Component, Host string }
		InvolvedObject        struct{ Kind, Namespace, Name, UID string }
	}
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	if err := json.Unmarshal(body.Bytes(), &e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.events = append(s.events, fmt.Sprintf("%s %s/%s/%s %s from %s on %s in %s: %s", e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name, e.Reason, e.Source.Component, e.Source.Host, r.PathValue("namespace"), e.Message))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body.Bytes())
}

func (s *apiServer) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// annotated is a pod or a namespace as an API server has it, with what others write into its
// metadata.
func annotated(kind, namespace, name string, annotations ...string) metav1.PartialObjectMetadata {
	o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Annotations: pairs(annotations)}}
	o.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = strings.Repeat("{...}", 400)
	o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: kind, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:x":"` + strings.Repeat("y", 2000) + `"}`)}}
	return o
}

// TestProgram runs weir-kubernetes as a process: 250 pods, an annotation that changes, an Event,
// how often it asks the API server, and its memory.
func TestProgram(t *testing.T) {
	const pods, mostMemory = 250, 40 << 20
	b, s := newBed(t, ""), newAPIServer(t)
	for i := range pods {
		name := fmt.Sprint("pod-", i)
		namespace := fmt.Sprint("team-", i%10)
		annotations := []string{"weir.dev/weight", strconv.Itoa(1 + i%7)}
		if i == 7 {
			annotations = append(annotations, "weir.dev/min", "20m")
		}
		sandbox := pod(namespace+"/"+name, fmt.Sprint("s", i), annotations...)
		b.pods[sandbox.Id] = sandbox
		s.objects["pods"] = append(s.objects["pods"], annotated("Pod", namespace, name, annotations...))
		if i < 10 {
			s.objects["namespaces"] = append(s.objects["namespaces"], annotated("Namespace", "", namespace))
		}
	}
	c, _ := b.program(s, exec.Command)
	b.until("all pods are workloads", func() bool { return strings.Count(b.state(), "veth-") == pods })
	b.until("the mistake is an Event", func() bool { return len(s.told()) == 1 })
	const want = `Warning Pod/team-7/pod-7 InvalidAnnotation from weir on n1 in team-7: annotation weir.dev/min "20m": m is milli to Kubernetes, mega to others; write 20M or 20mbit; the other annotations hold`
	if told := s.told(); told[0] != want {
		t.Errorf("Event %q, want %q", told[0], want)
	}
	changed := annotated("Pod", "team-3", "pod-3", "weir.dev/weight", "77")
	changed.ResourceVersion = "2"
	b.until("the pods are watched", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.watches["pods"]) > 0 })
	s.mu.Lock()
	for _, w := range s.watches["pods"] {
		w <- changed
	}
	s.mu.Unlock()
	b.until("the annotation counts", func() bool { return strings.Contains(b.state(), "team-3/pod-3 weight 77 ") })
	s.mu.Lock()
	before := slices.Sorted(slices.Values(s.requests))
	s.mu.Unlock()
	if want := []string{"namespaces  watch=false", "namespaces  watch=true", "pods spec.nodeName=n1 watch=false", "pods spec.nodeName=n1 watch=true"}; !slices.Equal(before, want) {
		t.Errorf("asked %q, want %q", before, want)
	}
	time.Sleep(3 * time.Second)
	s.mu.Lock()
	if len(s.requests) != len(before) {
		t.Errorf("asked %q although nothing changes", s.requests[len(before):])
	}
	s.mu.Unlock()
	memory := resident(t, c.Process.Pid)
	t.Logf("%d pods: %.1f MB", pods, float64(memory)/1e6)
	if memory > mostMemory {
		t.Errorf("%d bytes of memory with %d pods, more than %d", memory, pods, mostMemory)
	}
}

// programPath returns weir-kubernetes: the one in this folder, as in a virtual machine, or one that
// is built.
func programPath(t *testing.T) string {
	t.Helper()
	const here = "./weir-kubernetes"
	if _, err := os.Stat(here); err == nil {
		return here
	}
	program := filepath.Join(t.TempDir(), "weir-kubernetes")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "weir/cmd/weir-kubernetes").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// program runs weir-kubernetes as a process of its own, by the command that make returns, until the
// end of the test.
func (b *bed) program(s *apiServer, make func(program string, args ...string) *exec.Cmd) (*exec.Cmd, *logtest.Buffer) {
	b.t.Helper()
	log := &logtest.Buffer{}
	args := []string{"--node", "n1", "--kubeconfig", s.kubeconfig(b.t), "--socket", b.socket(), "--nri-socket", filepath.Join(b.dir, "nri.sock"), "--weights", "none"}
	noClaims := []string{"--kubelet-dir", "none"} // here is no kubelet
	if _, err := parse(append(slices.Clone(args), noClaims...)); err == nil {
		args = append(args, noClaims...)
	}
	c := make(programPath(b.t), args...)
	c.Stderr = log
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if b.t.Failed() {
			b.t.Log(log.String())
		}
	})
	return c, log
}

// resident returns the memory of a process in bytes.
func resident(t *testing.T, pid int) uint64 {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// TestCommandLine: what is wrong has one line with flag, value and remedy.
func TestCommandLine(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "--node: the node's name is missing; give it, or set NODE_NAME"},
		{"--node n1 x", `"x" is not expected; weir-kubernetes takes flags only, see --help`},
		{"--node n1 --forbid mim", `--forbid "mim": a policy has no such field; did you mean "min"?`},
		{"--node n1 --weights guaranteed=0", `--weights "guaranteed=0": weight "0": out of range; write a whole number from 1 to 10000; only the proportions between weights count`},
		{"--node n1 --weights burst=2", `--weights "burst=2": did you mean "burstable"?`},
		{"--node n1 --weights guaranteed=3,besteffort=2 --forbid min,ingress.min", ""},
		{"--node n1 --forbid none --weights none", ""},
		{"--probe redy --probe-socket x", `--probe "redy": did you mean "ready"?`},
		{"--probe live", "--probe live: of which process is missing; give its --probe-socket too"},
		{"--probe live --probe-socket x", ""},
		{"--idle", ""},
	} {
		t.Setenv("NODE_NAME", "")
		_, err := parse(strings.Fields(tt.args))
		if got := fmt.Sprint(err); got != tt.want && (err != nil || tt.want != "") {
			t.Errorf("%q: %s, want %s", tt.args, got, tt.want)
		}
	}
}
