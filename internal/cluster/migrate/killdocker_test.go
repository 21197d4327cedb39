// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"weir/internal/cluster/clustertest"
	"weir/internal/core/wire"
)

// dockerMachine is a node of a cluster.
type dockerMachine struct {
	*machine
	bed    *faultBed
	node   *clustertest.Node
	before string

	mu     sync.Mutex
	mounts []string // the mount namespaces of its engine's lives
	lost   int      // cables that an engine has lost with its mount namespace, in which it keeps network namespaces
}

// newDockerMachines starts two machines with Docker, on whose switch are networks of each kind.
func newDockerMachines(t *testing.T) []*machine {
	t.Helper()
	b := &faultBed{bed: newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})}
	b.addNetworks()
	var list []*machine
	for _, n := range b.Nodes() {
		d := &dockerMachine{bed: b, node: n}
		d.machine = &machine{t: t, name: n.Name, dir: filepath.Join(b.Dir, "kill-"+n.Name), engine: d}
		d.must(os.Mkdir(d.dir, 0o700))
		d.note()
		d.startHelper()
		d.startAgent()
		t.Cleanup(d.stop)
		d.before = b.leftovers(n.Name, moved)
		list = append(list, d.machine)
	}
	return list
}

// fixed has the address of the container in each network of addNetworks.
var fixed = map[string]string{"macvlan": "10.77.0.50"}

// addNetworks makes networks in which a container keeps its address when it moves.
func (b *bed) addNetworks() {
	b.t.Helper()
	for _, n := range b.Nodes() {
		_, err := n.Docker().NetworkCreate(b.t.Context(), "macvlan", network.CreateOptions{
			Driver: "macvlan", Options: map[string]string{"parent": "eth0"},
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: clustertest.Subnet, Gateway: clustertest.SwitchAddress}}},
		})
		b.must(err)
	}
}

// note remembers the mount namespace of an engine that runs.
func (d *dockerMachine) note() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", d.node.Pid())); err == nil && !slices.Contains(d.mounts, ns) {
		d.mounts = append(d.mounts, ns)
	}
}

func (d *dockerMachine) kind() wire.EngineName { return wire.EngineDocker }

func (d *dockerMachine) parts() []string {
	return []string{"criu", "runc", "containerd-shim", "engine"}
}

func (d *dockerMachine) helper() []string { return []string{helperDocker + "=unix://" + d.node.Socket} }

func (d *dockerMachine) kill() { d.node.KillDaemon() }

func (d *dockerMachine) revive() {
	if d.node.Pid() == 0 {
		d.bed.startEngine(d.name)
		d.note()
		d.lost = d.cables()
	}
}

// cables returns how many cables there are beside those to containers that run.
func (d *dockerMachine) cables() int {
	links, err := d.node.Command(context.Background(), "ip", "-brief", "link").Output()
	d.must(err)
	running, err := d.node.Running(context.Background())
	d.must(err)
	return max(0, strings.Count("\n"+string(links), "\nveth")-len(running))
}

func (d *dockerMachine) owns(pid int) bool {
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	d.mu.Lock()
	defer d.mu.Unlock()
	return err == nil && slices.Contains(d.mounts, ns)
}

func (d *dockerMachine) start(net string) {
	d.t.Helper()
	ctx := context.Background()
	h := &container.HostConfig{NetworkMode: container.NetworkMode(net)}
	var n *network.NetworkingConfig
	if address := fixed[net]; address != "" {
		n = &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{net: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: address}}}}
	}
	made, err := d.node.Docker().ContainerCreate(ctx, &container.Config{Image: clustertest.CounterImage, Cmd: []string{"mib=8", "tcp=1"}, StopSignal: "SIGKILL"}, h, n, nil, moved)
	d.must(err)
	d.must(d.node.Docker().ContainerStart(ctx, made.ID, container.StartOptions{}))
}

func (d *dockerMachine) remove() { _ = d.node.Remove(context.Background(), moved) }

func (d *dockerMachine) clear() {}

func (d *dockerMachine) inspect() (container.InspectResponse, error) {
	return d.node.Docker().ContainerInspect(context.Background(), moved)
}

func (d *dockerMachine) pid() int {
	r, err := d.inspect()
	if err != nil || !r.State.Running || r.State.Paused {
		return 0
	}
	return r.State.Pid
}

func (d *dockerMachine) reach(net string, f func(string) error) error {
	switch {
	case net == "none":
		return nil
	case net == "host":
		return d.bed.inside(d.node, func() error { return f("127.0.0.1:7000") })
	case fixed[net] != "":
		return d.bed.Inside(func() error { return f(fixed[net] + ":7000") })
	}
	r, err := d.inspect()
	if err != nil {
		return err
	}
	for _, n := range r.NetworkSettings.Networks {
		return d.bed.inside(d.node, func() error { return f(n.IPAddress + ":7000") })
	}
	return errors.New("no address")
}

func (d *dockerMachine) left() (list []string) {
	for _, l := range strings.Split(d.bed.leftovers(d.name, moved), "\n") {
		if l != "" && !slices.Contains(strings.Split(d.before, "\n"), l) {
			list = append(list, l)
		}
	}
	if pid := d.pid(); pid == 0 {
		if _, err := d.inspect(); err == nil {
			list = append(list, "container "+moved)
		}
	}
	for _, l := range d.bed.remnants(d.node) {
		if !strings.Contains(l, "cables to") || d.cables() > d.lost {
			list = append(list, l)
		}
	}
	for _, l := range rulesIn(d.node.Netns) {
		list = append(list, "in its own namespace "+l)
	}
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", d.node.Pid()))
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, "criu-root") {
			list = append(list, "mount "+strings.Fields(line)[4])
		}
	}
	return list
}
