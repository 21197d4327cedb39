// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"net"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"weir/internal/test/dockertest"
)

// Machine is a node that is a machine of its own, such as a virtual one, with an engine
// in it. Its cable is a tap of the switch's (Cluster.Plug).
type Machine interface {
	// Docker is a client of its engine.
	Docker() *client.Client
	// Run runs a command in it and returns what that printed. An exit status other than
	// 0 is an error.
	Run(ctx context.Context, command string) (string, error)
	// DialAgent connects to the socket of the weir agent in it.
	DialAgent(ctx context.Context) (net.Conn, error)
	// Off says that it is switched off.
	Off() bool
	// PowerOff pulls its plug. PowerOn boots it with nothing of what it had, and waits
	// for its engine.
	PowerOff() error
	PowerOn(ctx context.Context) error
	// Close switches it off and lets go of what it had of this machine.
	Close() error
}

// Machine returns the machine that the node is, nil if it is a namespace.
func (n *Node) Machine() Machine { return n.machine }

// do has the node's machine do one of the verbs of vm/cluster-node.
func (n *Node) do(ctx context.Context, verb string) error {
	_, err := n.machine.Run(ctx, "./cluster-node "+verb)
	return err
}

// Docker returns a client of the node's engine.
func (n *Node) Docker() *client.Client {
	if n.machine != nil {
		return n.machine.Docker()
	}
	return n.Engine.Client()
}

// Import makes an image of programs of this machine on the node.
func (n *Node) Import(ctx context.Context, ref string, programs ...string) error {
	return dockertest.Import(ctx, n.Docker(), ref, programs...)
}

// Remove ends and removes a container.
func (n *Node) Remove(ctx context.Context, name string) error {
	return n.Docker().ContainerRemove(ctx, name, container.RemoveOptions{Force: true})
}

// KillEngine ends the node's dockerd without a chance to tidy up; StartEngine starts it
// again.
func (n *Node) KillEngine(ctx context.Context) error {
	if n.machine != nil {
		return n.do(ctx, "kill_engine")
	}
	n.KillDaemon()
	return nil
}

// StartEngine starts the node's dockerd.
func (n *Node) StartEngine(ctx context.Context) error {
	if n.machine != nil {
		return n.do(ctx, "start_engine")
	}
	return n.StartDaemon(ctx)
}
