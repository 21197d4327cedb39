// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"weir/internal/cluster/clustertest"
	"weir/internal/core/refusal"
)

// What of a plane is different where nodes are machines: the agents are in there.

// machine returns a node's virtual machine, nil for the manager and for a namespace.
func (p *plane) machine(node string) clustertest.Machine {
	if node == "" {
		return nil
	}
	return p.cluster.Node(node).Machine()
}

// configureMachine puts weir.yaml and the token into a machine, and has the agent's
// socket there answered at the path where one of this machine's would be.
func (p *plane) configureMachine(n *clustertest.Node, settings, member map[string]any) error {
	member["token_file"] = "/etc/weir/token"
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(p.file("token"))
	if err != nil {
		return err
	}
	_, err = n.Machine().Run(context.Background(), fmt.Sprintf("mkdir -p /etc/weir; cat >/etc/weir/weir.yaml <<'END'\n%s\nEND\necho '%s' >/etc/weir/token", text, token))
	if err != nil {
		return err
	}
	if _, err := os.Stat(p.socket(n.Name)); err == nil {
		return nil // the machine was booted again
	}
	l, err := net.Listen("unix", p.socket(n.Name))
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.ways = append(p.ways, l)
	p.mu.Unlock()
	go forward(l, n.Machine())
	return nil
}

// forward connects each connection to l with the agent in a machine, until l is closed.
func forward(l net.Listener, m clustertest.Machine) {
	for {
		here, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer here.Close()
			there, err := m.DialAgent(context.Background())
			if err != nil {
				return
			}
			defer there.Close()
			go func() {
				_, _ = io.Copy(there, here) // whichever side ends, ends both
				there.Close()
			}()
			_, _ = io.Copy(here, there)
		}()
	}
}

// again lets a machine that was booted again join. What the manager knew by its name
// has to go first: it is another machine now.
func (p *plane) again(ctx context.Context, node string) error {
	if _, err := p.manager().RemoveNode(ctx, node); err != nil && !refusal.Is(err, refusal.Unknown) {
		return err
	}
	if err := p.configure(p.cluster.Node(node)); err != nil {
		return err
	}
	if err := p.start(node); err != nil {
		return err
	}
	return p.up(ctx)
}

// fetchJournals copies the machines' journals to where those of this machine's agents
// are. What cannot be had, such as from a machine that is off, stays as it was.
func (p *plane) fetchJournals() {
	for _, n := range p.cluster.Nodes() {
		m := n.Machine()
		if m == nil || m.Off() {
			continue
		}
		text, err := m.Run(context.Background(), `cd /var/lib/weir/cluster/moves/journal && for f in *.jsonl; do echo "== $f"; cat "$f"; done`)
		folder := filepath.Join(p.state(n.Name), "cluster", "moves", "journal")
		if err != nil || os.MkdirAll(folder, 0o700) != nil {
			continue
		}
		for _, part := range strings.Split(text, "== ")[1:] {
			name, records, _ := strings.Cut(part, "\n")
			_ = os.WriteFile(filepath.Join(folder, filepath.Base(name)), []byte(records), 0o600)
		}
	}
}
