// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/refusal"
	"weir/internal/face/cli/frame"
	"weir/internal/face/server"
	"weir/internal/host/agent"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/fake"
	"weir/internal/host/discover"
	"weir/internal/host/discover/discovertest"
)

// wrongHost is a real agent behind a real server, over a kernel that is a fake: web
// (weight 3, min 20 Mbit/s), batch and a container of each wrong label, on eth0 of
// 100 Mbit/s.
type wrongHost struct {
	dir    string
	socket string
	kernel *fake.Kernel
	source *discovertest.Source
	client *api.Client

	handler http.Handler // of the API
}

// noSuch is an Attacher for which nothing exists.
type noSuch struct{}

func (noSuch) Attach(a config.Attachment, _ bool) error {
	return &refusal.Error{Kind: refusal.Invalid, Field: "netns", Value: a.Netns + a.Device, Msg: "does not exist", Remedy: "name one that does"}
}
func (noSuch) Detach(config.Attachment) error { return nil }
func (noSuch) Look(config.Attachment) ([]discover.Device, []string) {
	return nil, nil
}

func containerOf(name string, labels map[string]string) discover.Workload {
	return discover.Workload{Key: "docker:" + name, ID: name + strings.Repeat("0", 60), Name: name, Kind: "docker", Labels: labels,
		Devices: []discover.Device{{Name: "veth" + name, Ifindex: 1000 + len(name)*31 + int(name[0])*7 + int(name[len(name)-1])}}}
}

func newWrongHost(t *testing.T, containers ...discover.Workload) *wrongHost {
	t.Helper()
	h := &wrongHost{dir: t.TempDir(), kernel: fake.NewKernel("eth0"), source: discovertest.New("docker")}
	h.socket = filepath.Join(h.dir, "weir.sock")
	c, err := config.Parse("", []byte("links: [{device: eth0, egress: 100mbit}]\nworkloads: {web: {weight: 3, min: 20mbit}}\ngroups: {team: {max: 40mbit}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	ag, err := agent.New(agent.Options{
		Config: c, StateDir: filepath.Join(h.dir, "state"), Version: "1.0", Log: log, Attach: noSuch{},
		Devices: agent.Devices{Open: func(l config.Link) (dataplane.Backend, error) { return h.kernel.Open(l.Name()) }},
		Sources: []discover.Source{h.source},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.source.Set(append(containers, containerOf("web", nil), containerOf("batch", nil))...)
	srv := server.New(ag, server.Options{Socket: h.socket, Log: log})
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- ag.Run(ctx) }()
	go func() { served <- srv.Serve(ctx) }()
	t.Cleanup(func() { cancel(); <-ran; <-served })
	h.client, h.handler = api.NewClient(h.socket), srv.Handler()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if w, err := h.client.Workload(ctx, "batch"); err == nil && w.State == "active" {
			return h
		}
		if time.Now().After(deadline) {
			t.Fatal("batch is not active after 10 s")
		}
	}
}

// weir runs a command in the test's folder and returns its exit code and its stderr.
func (h *wrongHost) weir(args ...string) (int, string) {
	var out, errs bytes.Buffer
	a := &frame.App{Streams: frame.Streams{Stdout: &out, Stderr: &errs}, Stdin: os.Stdin, Socket: h.socket}
	code := runHere(context.Background(), a, append([]string{"--socket", h.socket}, args...))
	return code, errs.String()
}

// state returns all that a change would change: policies, groups, what the kernel holds,
// and the file in which changes are kept.
func (h *wrongHost) state(t *testing.T) string {
	t.Helper()
	ws, err := h.client.Workloads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range ws {
		ws[i].Links = nil // counters
	}
	groups, err := h.client.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range groups {
		groups[i].Links = nil
	}
	kept, err := os.ReadFile(filepath.Join(h.dir, "state", "state.json"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent([]any{ws, groups, h.kernel.State("eth0"), string(kept)}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
