// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// described returns the configuration that a user gave a container, as text.
func (b *bed) described(node, name string) string {
	b.t.Helper()
	r, err := b.Node(node).Docker().ContainerInspect(b.t.Context(), name)
	b.must(err)
	delete(r.Config.Labels, migrate.MoveLabel)
	for _, m := range r.Mounts { // anonymous ones are named when they have moved
		r.HostConfig.Mounts = slices.DeleteFunc(r.HostConfig.Mounts, func(n2 mount.Mount) bool { return n2.Target == m.Destination && len(n2.Source) == 64 })
	}
	if len(r.HostConfig.Mounts) == 0 {
		r.HostConfig.Mounts = nil
	}
	aliases := map[string][]string{}
	for name, n := range r.NetworkSettings.Networks {
		aliases[name] = slices.DeleteFunc(slices.Clone(n.Aliases), func(a string) bool { return strings.HasPrefix(r.ID, a) || a == r.Config.Hostname })
	}
	text, err := json.MarshalIndent([]any{r.Config, r.HostConfig, aliases}, "", " ")
	b.must(err)
	return string(text)
}

// TestTheConfigurationGoesAlong: the copy is as if a user had started it there, and
// its volumes hold what they held.
func TestTheConfigurationGoesAlong(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	for _, n := range b.Nodes() {
		_, err := n.Docker().NetworkCreate(t.Context(), "inner", network.CreateOptions{Driver: "bridge"})
		b.must(err)
	}
	stopTimeout, swappiness := 3, int64(10)
	c := &container.Config{
		Image: clustertest.CounterImage, Cmd: []string{"mib=2"}, StopSignal: "SIGKILL", StopTimeout: &stopTimeout,
		Env: []string{"A=1", "B=two words"}, Labels: map[string]string{"weir.weight": "3", "weir.min": "5mbit", "app": "x"},
		WorkingDir: "/state", User: "0", Volumes: map[string]struct{}{"/anonymous": {}},
	}
	h := &container.HostConfig{
		Binds:         []string{"things:/things:rw"},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyOnFailure, MaximumRetryCount: 3},
		NetworkMode:   "inner", CapAdd: []string{"NET_ADMIN"}, ExtraHosts: []string{"db:10.0.0.9"}, DNS: []string{"10.0.0.53"},
		Tmpfs: map[string]string{"/scratch": "size=1m"}, ReadonlyRootfs: false, ShmSize: 32 << 20,
		Resources: container.Resources{Memory: 256 << 20, NanoCPUs: 5e8, PidsLimit: &swappiness, CPUShares: 512},
	}
	networks := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{"inner": {Aliases: []string{"api", "backend"}}}}
	cli := b.Node("a").Docker()
	made, err := cli.ContainerCreate(t.Context(), c, h, networks, nil, "web")
	b.must(err)
	b.must(cli.ContainerStart(t.Context(), made.ID, container.StartOptions{}))
	b.waitCount("a", "web", 2)
	want := b.described("a", "web")

	r := b.migrate("web", "a", "b", migrate.Request{})
	if r.State != wire.MoveDone {
		t.Fatalf("%s: %s%s", r.State, r.Err, steps(r))
	}
	if got := b.described("b", "web"); got != want {
		before, after := strings.Split(want, "\n"), strings.Split(got, "\n")
		for i := range min(len(before), len(after)) {
			if before[i] != after[i] {
				t.Errorf("line %d was %s and is %s", i, before[i], after[i])
			}
		}
		t.Errorf("%d lines were %d", len(after), len(before))
	}
	at := b.waitCount("b", "web", 0)
	b.waitCount("b", "web", at.Last)
	there, err := b.Node("b").Docker().VolumeList(t.Context(), volume.ListOptions{})
	b.must(err)
	left, err := cli.VolumeList(t.Context(), volume.ListOptions{})
	b.must(err)
	if len(there.Volumes) != 2 || len(left.Volumes) != 0 {
		t.Errorf("%d volumes on b and %d on a, want 2 and none", len(there.Volumes), len(left.Volumes))
	}
}

// TestWhatCannotMigrateIsSaid: by the pre-flight, before anything is touched.
func TestWhatCannotMigrateIsSaid(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	yes, ctx, cli := true, t.Context(), b.Node("a").Docker()
	_, err := cli.NetworkCreate(ctx, "only-a", network.CreateOptions{Driver: "bridge"})
	b.must(err)
	_, err = b.Node("b").Docker().VolumeCreate(ctx, volume.CreateOptions{Name: "taken"})
	b.must(err)
	b.start("a", "other", nil)
	onlyA := b.onlyOn("a")
	publish := func(c *container.Config, h *container.HostConfig) {
		b.must(json.Unmarshal([]byte(`{"80/tcp": {}}`), &c.ExposedPorts))
		b.must(json.Unmarshal([]byte(`{"80/tcp": [{"HostPort": "18080"}]}`), &h.PortBindings))
	}
	b.start("b", "taker", publish)
	for _, c := range []struct {
		code   string
		change func(*container.Config, *container.HostConfig)
	}{
		{"privileged", func(_ *container.Config, h *container.HostConfig) { h.Privileged = true }},
		{"device", func(_ *container.Config, h *container.HostConfig) {
			h.Devices = []container.DeviceMapping{{PathOnHost: "/dev/kmsg", PathInContainer: "/dev/kmsg", CgroupPermissions: "r"}}
		}},
		{"init", func(_ *container.Config, h *container.HostConfig) { h.Init = &yes }},
		{"auto-remove", func(_ *container.Config, h *container.HostConfig) { h.AutoRemove = true }},
		{"shared-namespace", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "container:other" }},
		{"network-missing", func(_ *container.Config, h *container.HostConfig) { h.NetworkMode = "only-a" }},
		{"volume-taken", func(_ *container.Config, h *container.HostConfig) { h.Binds = []string{"taken:/x"} }},
		{"bind-missing", func(_ *container.Config, h *container.HostConfig) { h.Binds = []string{onlyA + ":/x"} }},
		{"port-taken", publish},
		{"swarm", func(c *container.Config, _ *container.HostConfig) {
			c.Labels = map[string]string{"com.docker.swarm.service.name": "web"}
		}},
		{"not-running", func(*container.Config, *container.HostConfig) {}},
	} {
		t.Run(c.code, func(t *testing.T) {
			b := *b
			b.t = t
			config, host := &container.Config{Image: clustertest.CounterImage}, &container.HostConfig{}
			c.change(config, host)
			made, err := cli.ContainerCreate(t.Context(), config, host, nil, nil, "sub")
			b.must(err)
			defer b.Node("a").Remove(context.WithoutCancel(t.Context()), made.ID)
			p := b.check("sub", "a", "b", migrate.Request{})
			if !slices.ContainsFunc(p.Refusals(), func(f migrate.PreflightFinding) bool { return f.Code == c.code && f.Remedy != "" }) {
				t.Errorf("not found: %v", p.Findings)
			}
		})
	}
	if _, err := migrate.Check(ctx, b.nodes["a"], b.nodes["b"], migrate.Request{Move: "x", Container: "nobody"}); err == nil || !strings.Contains(err.Error(), `no container "nobody"`) {
		t.Errorf("an unknown container: %v", err)
	}
}

// onlyOn returns a folder that one node's engine sees and the others' do not: each
// has its own over /etc/criu.
func (b *bed) onlyOn(node string) string {
	b.t.Helper()
	b.must(os.Mkdir(filepath.Join(b.Node(node).Dir(), "criu", "only-"+node), 0o755))
	return "/etc/criu/only-" + node
}

// TestConnectionsAreClosed: with --close-connections the program goes on without them.
func TestConnectionsAreClosed(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}, TCP: "close"})
	b.start("a", "nat", nil, "tcp=1")
	r, err := b.Node("a").Docker().ContainerInspect(t.Context(), "nat")
	b.must(err)
	conn, err := b.Node("a").Dial("tcp", r.NetworkSettings.Networks["bridge"].IPAddress+":7000")
	b.must(err)
	defer conn.Close()
	_, err = bufio.NewReader(conn).ReadString('\n')
	b.must(err)
	if f := b.check("nat", "a", "b", migrate.Request{}).Refusals(); len(f) != 1 || f[0].Code != "tcp" {
		t.Errorf("without being told to close it: %v", f)
	}
	result := b.migrate("nat", "a", "b", migrate.Request{CloseConnections: true})
	if result.State != wire.MoveDone {
		t.Fatalf("%s: %s%s", result.State, result.Err, steps(result))
	}
	at := b.waitCount("b", "nat", 0)
	if c := b.waitCount("b", "nat", at.Last+3); c.Starts != 1 {
		t.Errorf("it has started %d times", c.Starts)
	}
	r, err = b.Node("b").Docker().ContainerInspect(t.Context(), "nat")
	b.must(err)
	again, err := b.Node("b").Dial("tcp", r.NetworkSettings.Networks["bridge"].IPAddress+":7000")
	b.must(err)
	defer again.Close()
	b.must(again.SetReadDeadline(time.Now().Add(20 * time.Second)))
	if line, err := bufio.NewReader(again).ReadString('\n'); err != nil {
		t.Errorf("it serves nobody any more: %q, %v", line, err)
	}
}

// TestConnections: behind NAT the pre-flight refuses one that is established; with an
// address that moves it survives.
func TestConnections(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}, TCP: "established"})
	for _, n := range b.Nodes() {
		_, err := n.Docker().NetworkCreate(t.Context(), "lan", network.CreateOptions{
			Driver: "macvlan", Options: map[string]string{"parent": "eth0"},
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: clustertest.Subnet, Gateway: "10.77.0.1"}}},
		})
		b.must(err)
	}
	b.start("a", "nat", nil, "tcp=1")
	r, err := b.Node("a").Docker().ContainerInspect(t.Context(), "nat")
	b.must(err)
	conn, err := b.Node("a").Dial("tcp", r.NetworkSettings.Networks["bridge"].IPAddress+":7000")
	b.must(err)
	defer conn.Close()
	_, err = bufio.NewReader(conn).ReadString('\n')
	b.must(err)
	p := b.check("nat", "a", "b", migrate.Request{})
	if f := p.Refusals(); len(f) != 1 || f[0].Code != "tcp" {
		t.Errorf("a connection behind NAT: %v", p.Findings)
	}

	cli := b.Node("a").Docker()
	made, err := cli.ContainerCreate(t.Context(),
		&container.Config{Image: clustertest.CounterImage, Cmd: []string{"tcp=1"}, StopSignal: "SIGKILL", MacAddress: "02:42:0a:4d:00:32"}, //nolint:staticcheck // Debian 12's Docker has API 1.41, where the address stands here
		&container.HostConfig{NetworkMode: "lan"},
		&network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{"lan": {
			IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: "10.77.0.50"},
		}}}, nil, "lan")
	b.must(err)
	b.must(cli.ContainerStart(t.Context(), made.ID, container.StartOptions{}))
	b.waitCount("a", "lan", 1)
	far, err := b.Dial("tcp", "10.77.0.50:7000")
	b.must(err)
	defer far.Close()
	lines := bufio.NewReader(far)
	_, err = lines.ReadString('\n')
	b.must(err)
	result := b.migrate("lan", "a", "b", migrate.Request{})
	if result.State != wire.MoveDone {
		t.Fatalf("%s: %s%s", result.State, result.Err, steps(result))
	}
	b.must(far.SetReadDeadline(time.Now().Add(20 * time.Second)))
	last := -1
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		line, err := lines.ReadString('\n')
		b.must(err)
		var n int
		if _, err := fmt.Sscanf(line, "%d ", &n); err != nil {
			t.Fatal(err)
		}
		if last >= 0 && n != last+1 {
			t.Fatalf("%d came after %d", n, last)
		}
		last = n
	}
	now := b.waitCount("b", "lan", 0)
	if last < now.Last-30 {
		t.Errorf("the connection has brought %d, the counter on b is at %d", last, now.Last)
	}
	t.Logf("the connection went on to %d, over a standstill of %v", last, now.Gap)
}
