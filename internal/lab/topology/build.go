// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"weir/internal/lab/scenario"
)

// ErrNoQdisc says that the kernel lacks a qdisc, or tc does not know it.
var ErrNoQdisc = errors.New("this kernel has no such qdisc")

// Uplink is the device whose root qdisc is the scheduler under test.
const Uplink = "up0"

// ServerDevice is the receiver's device, where the meter sits.
const ServerDevice = "eth0"

// Net is a built network.
type Net struct {
	Host      *NS
	Server    *NS
	Workloads []*NS
	Ports     []Port  // the host's end of each workload's veth
	Switch    *Switch // with topology ovs, else nil
	Cables    []Cable // of the workloads that are like virtual machines
	line      *NS
	spec      scenario.Link
}

// Port is a device on the host that a workload's packets come in by.
type Port struct {
	Device  string
	Ifindex int
	// The workload's end: a path to its namespace and the device's index there. ""
	// for a tap's, which the host does not reach.
	PeerNetns   string
	PeerIfindex int
}

// Address of a workload; that of workload 0 is followed by the others'.
func Address(workload int) net.IP { return scenario.Address(workload).AsSlice() }

// ServerAddress is the receiver's address for a workload.
func ServerAddress(workload int) net.IP { return scenario.ServerAddress(workload).AsSlice() }

func mac(group, n int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x77, 0, 0, byte(group), byte(n)}
}

var (
	serverMAC  = mac(2, 1)
	prefixMask = net.CIDRMask(16, 32)
)

// Build makes the network for a number of workloads, of which those with the
// numbers taps are behind taps, like virtual machines.
func Build(spec scenario.Link, workloads int, taps ...int) (*Net, error) {
	host, err := Current("host")
	if err != nil {
		return nil, err
	}
	n := &Net{Host: host, spec: spec}
	if err := host.Do(quiet); err != nil {
		return nil, err
	}
	if err := host.up("lo"); err != nil {
		return nil, err
	}
	if err := n.bridge(host, "br0"); err != nil {
		return nil, err
	}
	if n.Server, err = create("srv"); err != nil {
		return nil, err
	}
	if err := n.uplink(); err != nil {
		return nil, err
	}
	for w := range workloads {
		if err := n.workload(w, slices.Contains(taps, w)); err != nil {
			return nil, err
		}
	}
	if spec.ECN {
		for _, ns := range append(n.Workloads, n.Server) {
			if err := ns.Do(askForECN); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// AddHost gives the receiver the address of another of its hosts (scenario.Traffic.Host), if it
// does not have it yet.
func (n *Net) AddHost(workload, host int) error {
	if host <= 1 {
		return nil
	}
	address := net.IP(scenario.HostAddress(workload, host).AsSlice())
	if err := n.Server.address(ServerDevice, address); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return n.Workloads[workload].neighbour("eth0", address, serverMAC)
}

// uplink leads from br0 to the receiver, through the line if there is one.
func (n *Net) uplink() error {
	from, device, bridge := n.Host, Uplink, "br0"
	if n.spec.Line != 0 || n.spec.Delay != 0 || n.spec.Loss != 0 {
		line, err := create("line")
		if err != nil {
			return err
		}
		n.line = line
		if err := n.bridge(line, "brl"); err != nil {
			return err
		}
		if err := n.veth(n.Host, Uplink, "br0", line, "in0", nil); err != nil {
			return err
		}
		if err := line.enslave("in0", "brl"); err != nil {
			return err
		}
		if err := n.Host.learn(Uplink, serverMAC); err != nil {
			return err
		}
		from, device, bridge = line, "out0", "brl"
	}
	if err := n.veth(from, device, bridge, n.Server, ServerDevice, serverMAC); err != nil {
		return err
	}
	if err := from.learn(device, serverMAC); err != nil {
		return err
	}
	if n.line != nil {
		return n.shapeLine()
	}
	return nil
}

// shapeLine gives the line its rate, delay and loss, on the device that leads
// to the receiver (the host, if traffic comes to the workloads), by netem: it sends one packet
// after the other, each for as long as the rate says, behind a plain FIFO of 1000 packets, as a
// modem does. A kernel without netem gets a token bucket, which lets what fits its bucket pass at
// once: rates are right, but what waits behind a burst waits too little.
func (n *Net) shapeLine() error {
	device := "out0"
	if n.spec.Ingress {
		device = "in0"
	}
	netem := fmt.Sprintf("qdisc add dev "+device+" root handle 10: netem limit %d", n.lineLimit())
	if n.spec.Delay != 0 {
		netem += fmt.Sprintf(" delay %dus", n.spec.Delay.Microseconds())
	}
	if n.spec.Jitter != 0 {
		netem += fmt.Sprintf(" %dus", n.spec.Jitter.Microseconds())
	}
	if n.spec.Loss != 0 {
		netem += fmt.Sprintf(" loss %.6f%%", n.spec.Loss*100)
	}
	if n.spec.Line != 0 {
		netem += fmt.Sprintf(" rate %dbit", n.spec.Line)
	}
	err := n.line.Tc(netem + "\n")
	if errors.Is(err, ErrNoQdisc) && (n.spec.Delay != 0 || n.spec.Loss != 0) {
		return fmt.Errorf("link.delay and link.loss need the kernel's netem, which this one lacks; run the scenario in the VM (vm/run)")
	}
	if errors.Is(err, ErrNoQdisc) {
		err = n.line.Tc(fmt.Sprintf("qdisc add dev "+device+" root handle 20: tbf rate %dbit burst %d limit %d\n",
			n.spec.Line, TBFBurst(n.spec.Line, n.spec.MTU), lineFIFO*(n.spec.MTU+14)))
	}
	if err != nil {
		return fmt.Errorf("shape the line: %w", err)
	}
	return nil
}

// workload makes one namespace and connects it to br0.
func (n *Net) workload(w int, tap bool) error {
	ns, err := create(fmt.Sprintf("w%d", w+1))
	if err != nil {
		return err
	}
	bridge := "br0"
	if n.Switch != nil {
		bridge = ""
	}
	if tap {
		err = n.tap(ns.Name, ns, "eth0", mac(1, w+1))
	} else {
		err = n.veth(n.Host, ns.Name, bridge, ns, "eth0", mac(1, w+1))
	}
	if err != nil {
		return err
	}
	if err := ns.address("eth0", Address(w)); err != nil {
		return err
	}
	if err := n.Server.address(ServerDevice, ServerAddress(w)); err != nil {
		return err
	}
	if err := ns.neighbour("eth0", ServerAddress(w), serverMAC); err != nil {
		return err
	}
	if err := n.Server.neighbour(ServerDevice, Address(w), mac(1, w+1)); err != nil {
		return err
	}
	if n.Switch == nil {
		if err := n.Host.learn(ns.Name, mac(1, w+1)); err != nil {
			return err
		}
	}
	l, err := n.Host.link.LinkByName(ns.Name)
	if err != nil {
		return fmt.Errorf("find %s: %w", ns.Name, err)
	}
	n.Workloads = append(n.Workloads, ns)
	port := Port{Device: ns.Name, Ifindex: l.Attrs().Index}
	if !tap {
		port.PeerNetns, port.PeerIfindex = ns.path(), l.Attrs().ParentIndex
	}
	n.Ports = append(n.Ports, port)
	return nil
}

// lineFIFO is the number of packets that may wait before the line.
const lineFIFO = 1000

// lineLimit returns the packets of the FIFO and those under way on a line with a delay.
func (n *Net) lineLimit() int {
	rate := n.spec.Line
	if rate == 0 {
		rate = 10e9
	}
	return lineFIFO + int(float64(rate)*n.spec.Delay.Seconds()/8/float64(n.spec.MTU+14)*1.5)
}

// TBFBurst is the bucket of a token bucket that is exact and does not need a
// timer per packet: what the rate carries in a millisecond, two packets at least.
func TBFBurst[R ~uint64](rate R, mtu int) int {
	return max(int(rate)/8/1000, 2*(mtu+14))
}
