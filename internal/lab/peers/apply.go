// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/lab/meter"
	"weir/internal/lab/scenario"
	"weir/internal/lab/topology"
)

// Running is a peer at work on a device.
type Running struct {
	peer     KernelScheduler
	host     *topology.NS
	setting  Setting
	programs meter.Programs
	restore  func() error // of the kernel's parameters; nil: none was changed
}

// leaves are the queues for one workload, best first.
var leaves = []string{"fq_codel", "sfq", "pfifo"}

// Start sets the peer up on a device of the namespace host and lets the ports'
// packets find their classes.
func Start(p KernelScheduler, host *topology.NS, s Setting, ports []topology.Port) (*Running, error) {
	r := &Running{peer: p, host: host, setting: s}
	if s.Leaf.Kind == "" {
		var err error
		if r.setting.Leaf.Kind, err = BestLeaf(host); err != nil {
			return nil, err
		}
		r.setting.Leaf.FIFO = true
	}
	if p.Null {
		if err := r.programs.Null(); err != nil {
			r.programs.Close()
			return nil, fmt.Errorf("scheduler %s: %w", p.Name, err)
		}
	}
	if err := r.batch(p.setup(r.setting)); err != nil {
		_ = r.Close() // half of it may be there
		return nil, err
	}
	if p.Hysteresis {
		var err error
		if r.restore, err = hysteresis(); err != nil {
			_ = r.Close()
			return nil, fmt.Errorf("scheduler %s: %w", p.Name, err)
		}
	}
	if p.Handle == 0 {
		return r, nil
	}
	for w, port := range ports {
		if err := r.programs.Classify(port.Ifindex, uint32(w+1), meter.ClassTarget{Handle: p.Handle}); err != nil {
			_ = r.Close()
			return nil, err
		}
	}
	return r, nil
}

// BestLeaf tries which of the queues the kernel has, on the loopback device.
func BestLeaf(host *topology.NS) (string, error) {
	for _, kind := range leaves {
		err := host.Tc("qdisc add dev lo root " + kind + "\n")
		if err == nil {
			return kind, host.Tc("qdisc del dev lo root\n")
		}
		if !errors.Is(err, topology.ErrNoQdisc) {
			return "", err
		}
	}
	return "", fmt.Errorf("none of %s: %w", strings.Join(leaves, ", "), topology.ErrNoQdisc)
}

func (r *Running) batch(script string) error {
	if script == "" {
		return nil
	}
	err := r.host.Tc(script)
	if errors.Is(err, topology.ErrNoQdisc) {
		return fmt.Errorf("scheduler %s: %w; run the scenario in the VM (vm/run)", r.peer.Name, err)
	}
	if err != nil {
		return fmt.Errorf("scheduler %s: %w", r.peer.Name, err)
	}
	return nil
}

// Apply makes the peer follow new policies, as far as it can hold them.
func (r *Running) Apply(policies []scenario.Policy) error {
	now := r.setting
	now.Policies = policies
	if r.peer.change != nil {
		if err := r.batch(r.peer.change(r.setting, now)); err != nil {
			return err
		}
	}
	r.setting = now
	return nil
}

// Drops counts what the root qdisc lost, its children's losses included.
func (r *Running) Drops() (uint64, error) { return Drops(r.host, r.setting.Device) }

// Drops counts what a device's root qdisc lost, its children's losses included.
func Drops(host *topology.NS, device string) (uint64, error) {
	cmd := exec.Command("tc", "-s", "-j", "qdisc", "show", "dev", device)
	var out strings.Builder
	cmd.Stdout = &out
	if err := host.Do(cmd.Run); err != nil {
		return 0, fmt.Errorf("read the statistics of %s: %w", device, err)
	}
	return parseDrops(out.String())
}

func parseDrops(text string) (uint64, error) {
	var list []struct {
		Root  bool   `json:"root"`
		Drops uint64 `json:"drops"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return 0, fmt.Errorf("tc's statistics: %w", err)
	}
	for _, q := range list {
		if q.Root {
			return q.Drops, nil
		}
	}
	return 0, nil
}

// Close removes the qdisc and the programs, and puts parameters back.
func (r *Running) Close() error {
	r.programs.Close()
	var err error
	if r.restore != nil {
		err = r.restore()
	}
	if r.peer.Name == "none" {
		return err
	}
	return errors.Join(err, r.host.Tc("qdisc del dev "+r.setting.Device+" root\n"))
}

// Files of the kernel, and one that only vm/build's machines have.
const (
	hysteresisFile = "/sys/module/sch_htb/parameters/htb_hysteresis"
	machineFile    = "/usr/share/weir-vm"
)

// hysteresis turns HTB's hysteresis on; restore puts it back. It is a parameter of the
// whole kernel, so only a machine of vm/run's own may have it.
func hysteresis() (restore func() error, err error) {
	if _, err := os.Stat(machineFile); err != nil {
		return nil, errors.New("htb_hysteresis is a parameter of the whole kernel; run the scenario in the VM (vm/run)")
	}
	before, err := os.ReadFile(hysteresisFile)
	if err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(hysteresisFile, before, 0) }, os.WriteFile(hysteresisFile, []byte("1"), 0)
}

// Explain prints every peer with its commands for an example.
func Explain(w io.Writer) {
	example := Setting{
		Device: topology.Uplink, Leaf: Leaf{Kind: "fq_codel"},
		Link:     scenario.Link{Bandwidth: 100e6, MTU: scenario.DefaultMTU},
		Policies: []scenario.Policy{{Weight: 1, Min: policy.Rate(30e6)}, {Weight: 2}, {Weight: 3, Max: policy.Rate(40e6)}},
	}
	fmt.Fprint(w, "The commands are for a link of 100mbit with weights 1, 2, 3, a min of 30mbit for the first\n"+
		"and a max of 40mbit for the third.\n")
	for _, p := range Table {
		fmt.Fprintf(w, "\n%s\n  holds: %s\n  how:   %s\n", p.Name, p.Holds, p.How)
		for line := range strings.Lines(p.setup(example)) {
			fmt.Fprintf(w, "    tc %s", line)
		}
	}
}
