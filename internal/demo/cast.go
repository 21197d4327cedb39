// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"weir/internal/discover/dockertest"
)

// cast is what the workloads are: containers or namespaces.
type cast interface {
	// kind says so in a few words.
	kind() string
	// socket is that of the container engine, "" if there is none.
	socket() string
	// enter starts a workload that sends to an address, and has the agent know
	// it with a weight.
	enter(ctx context.Context, name string, weight uint32, to string) error
	// leave ends all of them and whatever was needed for them.
	leave() error
}

// containers run in a private Docker engine; the agent finds them by itself.
type containers struct {
	engine  *dockertest.Engine
	version string
	show    *screen
}

// containerImage holds nothing but weir itself, which can send.
const containerImage = "weir-demo:latest"

// startEngine starts an engine whose bridge is on the private host.
func startEngine(ctx context.Context, dir string, show *screen) (*containers, error) {
	engine, err := dockertest.StartHere(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := &containers{engine: engine, show: show}
	program, err := os.Executable()
	if err == nil {
		err = engine.Import(ctx, containerImage, program)
	}
	if err == nil {
		var about, aboutErr = engine.Client().ServerVersion(ctx)
		c.version, err = about.Version, aboutErr
	}
	if err != nil {
		return nil, errors.Join(err, engine.Stop())
	}
	return c, nil
}

func (c *containers) kind() string {
	return fmt.Sprintf("Docker containers, in a private engine (Docker %s)", c.version)
}

func (c *containers) socket() string { return c.engine.Socket }

func (c *containers) enter(ctx context.Context, name string, weight uint32, to string) error {
	label := fmt.Sprint(weight)
	program, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = c.engine.Run(ctx, dockertest.Container{
		Name: name, Image: containerImage, Labels: map[string]string{"weir.weight": label},
		Command: []string{filepath.Base(program), ChildArg, partSend, to},
	})
	if err == nil {
		c.show.line("container %s started, with the label weir.weight=%s", name, label)
	}
	return err
}

func (c *containers) leave() error { return c.engine.Stop() }

// namespaces are attached by name.
type namespaces struct {
	network *network
	agent   *agent
	senders []*exec.Cmd
}

func newNamespaces(n *network) (*namespaces, error) {
	return &namespaces{network: n}, n.addBridge()
}

func (n *namespaces) kind() string { return "network namespaces" }

func (n *namespaces) socket() string { return "" }

func (n *namespaces) enter(ctx context.Context, name string, weight uint32, to string) error {
	ns, err := newNamespace(name)
	if err != nil {
		return err
	}
	if err := n.network.plugIn(ns, len(n.senders)); err != nil {
		return err
	}
	if err := n.agent.weir(ctx, "attach", name, "--netns", name, "--weight", fmt.Sprint(weight)); err != nil {
		return err
	}
	sender := exec.Command("/proc/self/exe", ChildArg, partSend, to)
	sender.Stderr = os.Stderr
	if err := ns.start(sender); err != nil {
		return fmt.Errorf("start the sender of %s: %w", name, err)
	}
	n.senders = append(n.senders, sender)
	return nil
}

func (n *namespaces) leave() error {
	var errs []error
	for _, s := range n.senders {
		errs = append(errs, s.Process.Kill())
		_ = s.Wait() // it was killed
	}
	return errors.Join(errs...)
}
