// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"weir/internal/kube/plugin"
)

// execServer is an API server that has pods, and runs what is asked of the agent's container on
// this host, as kubelet would in the container.
type execServer struct {
	*apiServer
	pods []corev1.Pod
	weir string // the program
	env  []string
	ran  []string // pod: command
}

func newExecServer(t *testing.T, weir string, env ...string) *execServer {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the library tells each connection that a client ends
	s := &execServer{apiServer: newAPIServer(t), weir: weir, env: env}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", s.get)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", s.ofNamespace)
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}/exec", s.exec)
	s.Config.Handler = mux
	return s
}

func (s *execServer) get(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for _, p := range s.pods {
		if p.Namespace == r.PathValue("namespace") && p.Name == r.PathValue("name") {
			_ = json.NewEncoder(w).Encode(p)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
}

func (s *execServer) ofNamespace(w http.ResponseWriter, r *http.Request) {
	node, _ := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "spec.nodeName=")
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for _, p := range s.pods {
		if p.Namespace == r.PathValue("namespace") && p.Labels["app.kubernetes.io/name"] == "weir" && r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=weir" && (node == "" || p.Spec.NodeName == node) {
			list.Items = append(list.Items, p)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// exec speaks version 5 of the protocol, as API servers do since 1.31.
func (s *execServer) exec(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	command := q["command"]
	s.mu.Lock()
	s.ran = append(s.ran, fmt.Sprintf("%s/%s %s: %s", r.PathValue("namespace"), r.PathValue("name"), q.Get("container"), strings.Join(command, " ")))
	s.mu.Unlock()
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{remotecommand.StreamProtocolV5Name: {Binary: true,
		Channels: []wsstream.ChannelType{wsstream.IgnoreChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.ReadChannel}}})
	_, streams, err := conn.Open(w, r)
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = streams[remotecommand.StreamStdOut].Write(nil)
	c := exec.Command(s.weir, command[1:]...)
	c.Env = append(os.Environ(), s.env...)
	c.Stdout, c.Stderr = streams[remotecommand.StreamStdOut], streams[remotecommand.StreamStdErr]
	status := metav1.Status{Status: metav1.StatusSuccess}
	if err := c.Run(); err != nil {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason, Message: err.Error(), Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(c.ProcessState.ExitCode())}}}}
	}
	_ = json.NewEncoder(streams[remotecommand.StreamErr]).Encode(status)
}

// onNode is a pod that runs on a node; the chart's pods have its label.
func onNode(namespace, name, node string, weir bool) corev1.Pod {
	p := corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if weir {
		p.Labels = map[string]string{"app.kubernetes.io/name": "weir"}
	}
	return p
}

// TestPlugin: kubectl weir finds the node of a pod and prints what the real agent there says of it,
// through the protocol of kubectl exec; what is wrong has one line, and weir's exit code.
func TestPlugin(t *testing.T) {
	b := newBed(t, "")
	b.plugin()
	b.run(pod("shop/web", "s1", "weir.dev/weight", "3", "weir.dev/min", "20M"))
	b.expect("the pod is a workload", "shop/web weight 3 min 20 Mbit/s veth-s1")
	weir := filepath.Join(t.TempDir(), "weir")
	if out, err := exec.Command("go", "build", "-o", weir, "weir/cmd/weir").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := newExecServer(t, weir, "WEIR_SOCKET="+b.socket())
	ended := onNode("weir", "weir-old", "n1", true)
	ended.Status.Phase = corev1.PodFailed
	s.pods = []corev1.Pod{onNode("shop", "web", "n1", false), onNode("shop", "lost", "n9", false), onNode("shop", "waits", "", false),
		ended, onNode("weir", "weir-b", "n2", true), onNode("weir", "weir-a", "n1", true), onNode("weir", "other", "n1", false)}
	config := s.kubeconfig(t)
	kubectl := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := plugin.Main(append([]string{"--kubeconfig", config}, args...), strings.NewReader(""), &out, &errs)
		return code, out.String(), errs.String()
	}
	direct, err := exec.Command(weir, "--socket", b.socket(), "explain", "shop/web").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		out  []string // each is in it
		err  string
		ran  string
	}{
		{args: "explain shop/web", out: []string{string(direct)}, ran: "weir/weir-a agent: /weir explain shop/web"},
		{args: "explain -n shop web", out: []string{string(direct)}, ran: "weir/weir-a agent: /weir explain shop/web"},
		{args: "get shop/web -- -o json", out: []string{`"name": "shop/web"`, `"min": "20mbit"`}, ran: "weir/weir-a agent: /weir get shop/web -o json"},
		{args: "get", out: []string{"node n1\n", "node n2\n", "shop/web"}, ran: "weir/weir-a agent: /weir get; weir/weir-b agent: /weir get"},
		{args: "top shop/web -- -n 1", out: []string{"shop/web"}, ran: "weir/weir-a agent: /weir top -n 1"},
		{args: "status --node n2", out: []string{"eth0"}, ran: "weir/weir-b agent: /weir status"},
		{args: "get shop/web -- --no-such-flag", code: 2, err: "no-such-flag", ran: "weir/weir-a agent: /weir get shop/web --no-such-flag"},
		{args: "top", code: 1, err: "kubectl weir: top: of which node is missing; give --node NAME or a pod\n"},
		{args: "explain shop/nothing", code: 1, err: "kubectl weir: there is no pod shop/nothing; kubectl -n shop get pods lists them\n"},
		{args: "explain shop/waits", code: 1, err: "kubectl weir: pod shop/waits is on no node yet; kubectl -n shop describe pod waits says why\n"},
		{args: "explain shop/lost", code: 1, err: "kubectl weir: no agent runs on n9; kubectl -n weir get pods -o wide -l app.kubernetes.io/name=weir shows those there are, --weir-namespace names another namespace\n"},
		{args: "get --weir-namespace elsewhere", code: 1, err: "kubectl weir: no agent runs on any node;"},
		{args: "", code: 2, err: "kubectl weir: no command; write one of doctor, explain, get, status, top, see --help\n"},
		{args: "set shop/web", code: 2, err: `kubectl weir: "set": kubectl weir only looks, and annotations change what holds; did you mean "get"?`},
		{args: "explian shop/web", code: 2, err: `did you mean "explain"?`},
		{args: "explain", code: 2, err: "kubectl weir: explain: of which pod is missing; write kubectl weir explain NAMESPACE/POD\n"},
		{args: "get /web", code: 2, err: `kubectl weir: "/web": write NAMESPACE/POD`},
		{args: "get a/b/c", code: 2, err: `write NAMESPACE/POD`},
		{args: "get a/b c", code: 2, err: `"c" is not expected; write one pod, and flags of weir behind --`},
		{args: "get shop/web --node n1", code: 2, err: "--node n1 and a pod: the pod says the node; leave one out"},
		{args: "--context none get", code: 1, err: `context "none" does not exist`},
	} {
		s.ran = nil
		code, out, errs := kubectl(strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(errs, tt.err) || tt.err == "" && errs != "" || strings.Join(s.ran, "; ") != tt.ran {
			t.Errorf("%q: exit code %d, %q; ran %q, want %d, %q; %q", tt.args, code, errs, s.ran, tt.code, tt.err, tt.ran)
		}
		for _, want := range tt.out {
			if !strings.Contains(out, want) {
				t.Errorf("%q prints\n%s\nwithout %q", tt.args, out, want)
			}
		}
	}
	b.stopAgent()
	if code, _, errs := kubectl("get", "shop/web"); code != 3 || !strings.Contains(errs, "no agent") {
		t.Errorf("without an agent: exit code %d, %q", code, errs)
	}
	s.Close()
	if code, _, errs := kubectl("get", "shop/web"); code != 1 || !strings.Contains(errs, "connect") {
		t.Errorf("without an API server: exit code %d, %q", code, errs)
	}
}
