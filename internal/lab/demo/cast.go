// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"weir/internal/test/dockertest"
)

// cast is the kind of the workloads: containers or namespaces.
type cast interface {
	// kind says so in a few words.
	kind() string
	// socket is the container engine's, "" if there is no engine.
	socket() string
	// enter starts a workload that sends to an address.
	enter(ctx context.Context, name string, weight uint32, to string) (entrance, error)
	// leave ends all of them and whatever was needed for them.
	leave() error
}

// entrance is the way in which an agent learns of a workload and its weight.
type entrance struct {
	note   string   // what was done, if the agent finds it by itself
	attach []string // else the arguments of weir that tell it
}

// containers run in a private Docker engine; the agent finds them by itself.
type containers struct {
	engine  *dockertest.Engine
	program string // path of weir-lab
	version string // of the engine
}

// containerImage holds nothing but weir-lab itself, which can send.
const containerImage = "weir-demo:latest"

// startEngine starts an engine whose bridge is on the private host.
func startEngine(ctx context.Context, dir string) (*containers, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	engine, err := dockertest.StartHere(ctx, dir)
	if err != nil {
		return nil, err
	}
	about, err := engine.Client().ServerVersion(ctx)
	if err == nil {
		err = engine.Import(ctx, containerImage, program)
	}
	if err != nil {
		return nil, errors.Join(err, engine.Stop())
	}
	return &containers{engine, program, about.Version}, nil
}

func (c *containers) kind() string {
	return fmt.Sprintf("Docker containers, in a private engine (Docker %s)", c.version)
}

func (c *containers) socket() string { return c.engine.Socket }

func (c *containers) enter(ctx context.Context, name string, weight uint32, to string) (entrance, error) {
	label := fmt.Sprint(weight)
	_, err := c.engine.Run(ctx, dockertest.Container{
		Name: name, Image: containerImage, Labels: map[string]string{"weir.weight": label},
		Command: []string{filepath.Base(c.program), ChildArg, partSend, to},
	})
	return entrance{note: fmt.Sprintf("container %s, with the label weir.weight=%s", name, label)}, err
}

func (c *containers) leave() error { return c.engine.Stop() }

// namespaces are attached by name.
type namespaces struct {
	network *network
	senders []*exec.Cmd
}

func newNamespaces(n *network) (*namespaces, error) {
	return &namespaces{network: n}, n.addBridge()
}

func (n *namespaces) kind() string { return "network namespaces" }

func (n *namespaces) socket() string { return "" }

func (n *namespaces) enter(_ context.Context, name string, weight uint32, to string) (entrance, error) {
	ns, err := newNamespace(name)
	if err != nil {
		return entrance{}, err
	}
	if err := n.network.plugIn(ns, len(n.senders)); err != nil {
		return entrance{}, err
	}
	sender := exec.Command("/proc/self/exe", ChildArg, partSend, to)
	sender.Stderr = os.Stderr
	if err := ns.start(sender); err != nil {
		return entrance{}, fmt.Errorf("start the sender of %s: %w", name, err)
	}
	n.senders = append(n.senders, sender)
	return entrance{attach: []string{"attach", name, "--netns", name, "--weight", fmt.Sprint(weight)}}, nil
}

func (n *namespaces) leave() error {
	var errs []error
	for _, s := range n.senders {
		errs = append(errs, s.Process.Kill())
		_ = s.Wait() // it was killed
	}
	return errors.Join(errs...)
}
