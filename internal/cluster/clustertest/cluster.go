// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate/registry"
	"weir/internal/test/dockertest"
)

// Cluster is a number of nodes.
type Cluster struct {
	// Registry is its address as the nodes' engines name it, host:port.
	Registry string
	// Store is the registry itself.
	Store *registry.Registry
	// Dir holds everything that the cluster writes.
	Dir string

	sw     netns.NsHandle
	nodes  []*Node
	server *http.Server
	made   []func() error // what gives folders in /etc back

	mu    sync.Mutex
	ports map[string]string // of the switch: device, by the name of the plugged-in end
}

// Node is one machine of the cluster.
type Node struct {
	*dockertest.Engine
	Name string
	IP   string

	machine Machine // if not nil, Engine and what follows are not used
	netns   netns.NsHandle
	disk    string // folder in which its engine keeps everything
	mounted bool
}

// Options has the settings that may differ from cluster to cluster.
type Options struct {
	Nodes []string
	// Machine makes a machine that is to be a node and switches it on; nil = nodes are
	// namespaces. It may be called for several at once.
	Machine func(ctx context.Context, c *Cluster, name, address string) (Machine, error)
	// DiskMiB gives a node's engine a disk of its own, in memory, of that size.
	DiskMiB map[string]int
	// TCP says what CRIU does with established connections: "established", "close" or "".
	TCP string
}

// ErrNotPossible says that this machine cannot run a cluster; the message that wraps
// it says why.
var ErrNotPossible = errors.New("cannot run a cluster")

// Start starts a cluster. The caller has to Stop it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it needs root", ErrNotPossible)
	}
	if out, err := exec.CommandContext(ctx, "criu", "--version").CombinedOutput(); err != nil && o.Machine == nil {
		return nil, fmt.Errorf("%w: criu --version: %w: %s; run scripts/deps cluster", ErrNotPossible, err, out)
	}
	dir, err := os.MkdirTemp("", "weir-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, ports: map[string]string{}}
	if err := c.start(ctx, o); err != nil {
		err = errors.Join(err, c.Stop())
		if errors.Is(err, dockertest.ErrNotPossible) {
			err = fmt.Errorf("%w: %w", ErrNotPossible, err)
		}
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, o Options) error {
	// Made before any engine and removed after all: each hides them behind its own.
	for _, folder := range []string{"/etc/docker", "/etc/criu"} {
		giveBack, err := dockertest.Borrow(folder)
		if err != nil {
			return err
		}
		c.made = append(c.made, giveBack)
	}
	var err error
	if c.sw, err = newSwitch(); err != nil {
		return err
	}
	if err := c.startRegistry(); err != nil {
		return err
	}
	for i, name := range o.Nodes {
		c.nodes = append(c.nodes, &Node{Name: name, IP: prefix + strconv.Itoa(11+i)})
	}
	if o.Machine != nil {
		return each(c.nodes, func(n *Node) (err error) {
			n.machine, err = o.Machine(ctx, c, n.Name, n.IP)
			return err
		})
	}
	for _, n := range c.nodes {
		if n.netns, err = newHost(c.sw, c.port(n.Name), n.IP); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		n.disk = filepath.Join(c.Dir, n.Name)
		if err := os.Mkdir(n.disk, 0o711); err != nil {
			return err
		}
		if size := o.DiskMiB[n.Name]; size > 0 {
			if err := unix.Mount("tmpfs", n.disk, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
				return fmt.Errorf("give node %s a disk: %w", n.Name, err)
			}
			n.mounted = true
		}
	}
	return each(c.nodes, func(n *Node) (err error) {
		criu := []string{"file-locks", "ghost-limit 64M"}
		if f := os.Getenv("WEIR_CRIU_LOG"); f != "" {
			criu = append(criu, "log-file "+f)
		}
		if o.TCP != "" {
			criu = append(criu, "tcp-"+o.TCP)
		}
		n.Engine, err = dockertest.StartWith(ctx, dockertest.Options{
			Parent: n.disk,
			Netns:  func() (netns.NsHandle, error) { return duplicate(n.netns) },
			Config: map[string]any{"experimental": true, "insecure-registries": []string{Subnet}},
			CRIU:   criu,
		})
		if err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
		return nil
	})
}

// port returns a new device of the switch's, for what has this name.
func (c *Cluster) port(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	device := "p" + strconv.Itoa(len(c.ports)+1)
	c.ports[name] = device
	return device
}

func (c *Cluster) portOf(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports[name]
}

// each runs f for all nodes at once.
func each(nodes []*Node, f func(*Node) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = f(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func duplicate(ns netns.NsHandle) (netns.NsHandle, error) {
	return netns.GetFromPath(fmt.Sprintf("/proc/self/fd/%d", int(ns)))
}

func (c *Cluster) startRegistry() error {
	var err error
	if c.Store, err = registry.Open(filepath.Join(c.Dir, "registry"), registry.Quota{}); err != nil {
		return err
	}
	l, err := c.Listen("5000")
	if err != nil {
		return err
	}
	c.Registry = l.Addr().String()
	c.server = &http.Server{Handler: c.Store, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(l) }() // until it is closed
	return nil
}

// StopRegistry ends the registry; StartRegistry brings it back with what it had.
func (c *Cluster) StopRegistry() error { return errors.Join(c.server.Close(), c.Store.Close()) }

// StartRegistry starts the registry again.
func (c *Cluster) StartRegistry() error { return c.startRegistry() }

// Node finds a node by its name. It panics if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	panic("no node " + name)
}

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Stop ends everything and removes what was made.
func (c *Cluster) Stop() error {
	err := each(c.nodes, func(n *Node) error {
		switch {
		case n.machine != nil:
			return n.machine.Close()
		case n.Engine != nil:
			return n.Engine.Stop()
		}
		return nil
	})
	errs := []error{err}
	if c.server != nil {
		errs = append(errs, c.StopRegistry())
	}
	for _, n := range c.nodes {
		if n.netns > 0 {
			errs = append(errs, n.netns.Close())
		}
		if n.mounted {
			errs = append(errs, unix.Unmount(n.disk, 0))
		}
	}
	if c.sw > 0 {
		errs = append(errs, c.sw.Close())
	}
	errs = append(errs, os.RemoveAll(c.Dir))
	for _, giveBack := range c.made {
		errs = append(errs, giveBack())
	}
	return errors.Join(errs...)
}

// FillDisk writes until the node's disk is full; FreeDisk takes it back.
func (n *Node) FillDisk() error {
	if n.machine != nil {
		return n.do(context.Background(), "fill_disk")
	}
	f, err := os.Create(filepath.Join(n.disk, "ballast"))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// FreeDisk removes what FillDisk wrote.
func (n *Node) FreeDisk() error {
	if n.machine != nil {
		return n.do(context.Background(), "free_disk")
	}
	return os.Remove(filepath.Join(n.disk, "ballast"))
}

// BreakCRIU makes every dump and restore on the node fail; MendCRIU ends that.
func (n *Node) BreakCRIU() error {
	if n.machine != nil {
		return n.do(context.Background(), "break_criu")
	}
	return os.WriteFile(filepath.Join(n.Dir(), "criu", "runc.conf"), []byte("no-such-option\n"), 0o644)
}

// MendCRIU gives the node the options it had.
func (n *Node) MendCRIU() error {
	if n.machine != nil {
		return n.do(context.Background(), "mend_criu")
	}
	return n.WriteCRIU()
}
