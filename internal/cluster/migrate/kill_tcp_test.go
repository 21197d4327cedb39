// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// TestConnectionsSurviveAKill: CRIU is killed once it has read an established connection. The
// connection goes on at the source.
func TestConnectionsSurviveAKill(t *testing.T) {
	set := newTrap(t)
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}, TCP: "established"})
	for _, n := range b.Nodes() {
		_, err := n.Docker().NetworkCreate(t.Context(), "lan", network.CreateOptions{
			Driver: "macvlan", Options: map[string]string{"parent": "eth0"},
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: clustertest.Subnet, Gateway: clustertest.SwitchAddress}}},
		})
		b.must(err)
	}
	cli := b.Node("a").Docker()
	made, err := cli.ContainerCreate(t.Context(),
		&container.Config{Image: clustertest.CounterImage, Cmd: []string{"tcp=1"}, StopSignal: "SIGKILL"}, &container.HostConfig{NetworkMode: "lan"},
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

	p := b.check("lan", "a", "b", migrate.Request{})
	b.must(p.Err())
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	killed := set.killAt(t, b.Node("a"), criuLogs["a"], "Dumping mm (pid", "criu")
	r, err := migrate.Run(context.Background(), b.nodes["a"], b.nodes["b"], j, nil)
	came := killed()
	b.must(errors.Join(err, j.Close()))
	if !came || r.State != wire.MoveRolledBack {
		t.Fatalf("killed %v, %s: %s%s", came, r.State, r.Err, steps(r))
	}
	t.Logf("%s; %s", r.Err, r.Warning)
	now := b.waitCount("a", "lan", 0)
	b.must(far.SetReadDeadline(time.Now().Add(10 * time.Second)))
	for n := 0; n <= now.Last+3; { // what it says from now on, not what was under way
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the connection, which has brought %d while the counter was at %d: %v", n, now.Last, err)
		}
		if _, err := fmt.Sscanf(line, "%d ", &n); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.remnants(b.Node("a")); len(left) > 1 || len(left) == 1 && left[0] != "0 cables to 1 containers" {
		t.Errorf("left: %q", left)
	}
}
