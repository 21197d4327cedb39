// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/policy"
)

// sendTap plays a virtual machine as far as the host sees one: a process that makes taps
// and writes frames into them, as workload NUMBER and those after it.
func sendTap(args []string) error {
	var rate, flow uint64
	var number int
	if _, err := fmt.Sscan(strings.Join(args[:3], " "), &rate, &number, &flow); err != nil {
		return err
	}
	var taps []*os.File
	var packets [][]byte
	for i, name := range args[3:slices.Index(args, "-name")] {
		tap, err := makeTap(name)
		if err != nil {
			return fmt.Errorf("make tap %s: %w", name, err)
		}
		packet := datagram(workloadAt(0, number+i), serverAt(0))
		binary.BigEndian.PutUint64(packet[frame-payload:], flow+uint64(i))
		taps, packets = append(taps, tap), append(packets, packet)
	}
	fmt.Println("taps are there")
	all := uint64(len(taps))
	return pace(all*rate, 200, frame, func(n uint64) error {
		packet := packets[n%all]
		binary.BigEndian.PutUint64(packet[frame-payload+8:], n/all)
		_, err := taps[n%all].Write(packet)
		if errors.Is(err, unix.EIO) { // not a port of the bridge yet
			err = nil
		}
		return err
	})
}

func makeTap(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	return os.NewFile(uintptr(fd), name), unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
}

// datagram returns a frame with a UDP datagram of zeroes to the receiver's port.
func datagram(from, to endpoint) []byte {
	f := make([]byte, frame)
	copy(f, to.mac)
	copy(f[6:], from.mac)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
	ip, udp := f[14:34], f[34:42]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], frame-14)
	copy(ip[12:], from.ip)
	copy(ip[16:], to.ip)
	sum := uint32(0)
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(udp, udpPort)
	binary.BigEndian.PutUint16(udp[2:], udpPort)
	binary.BigEndian.PutUint16(udp[4:], payload+8) // without a checksum, which IPv4 allows
	return f
}

// machine starts a virtual machine with interfaces: its process is called as QEMU's,
// and the taps are ports of the bridge. It sends all it can as workload i and those
// after it.
func (b *bed) machine(name string, i int, taps ...string) {
	b.t.Helper()
	p := &process{t: b.t, cmd: exec.Command("/proc/self/exe")}
	p.cmd.Args = slices.Concat([]string{"qemu-system-x86_64", childArg, "tap", fmt.Sprint(uint64(0.9 * float64(b.capacity))), fmt.Sprint(i), fmt.Sprint(*b.flows + 1)},
		taps, []string{"-name", "guest=" + name + ",debug-threads=on"})
	*b.flows += uint64(len(taps))
	p.start(b.host)
	if _, err := p.out.ReadString('\n'); err != nil {
		b.t.Fatalf("machine %s: %v", name, err)
	}
	for _, tap := range taps {
		b.host.must("connect "+tap, b.host.LinkSetMaster(b.host.device(tap), b.host.device(b.nets[0].bridge)))
		b.host.up(tap)
	}
}

// Machines with taps, each interface with a policy of its own, found by a pattern
// and called after the machine; then one machine as a group of its interfaces.
func TestMachines(t *testing.T) {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("no taps: ", err)
	}
	b := newBed(t, 1, 1)
	b.measure(0, 4)
	b.configure("  - {device: \"vnet*\"}\nworkloads: {db: {weight: 3}, db.1: {max: 10%}, mail: {min: 40%}}\n")
	a := b.start()
	b.steered(a)
	b.flood(0, 1, 0.9)
	b.machine("db", 2, "vnet1", "vnet2")
	b.machine("mail", 4, "vnet7")
	await(t, 10*time.Second, "machines known by name", func() error {
		workloads := b.get()
		for name, tap := range map[string]string{"db": "vnet1", "db.1": "vnet2", "mail": "vnet7"} {
			if w := workloads[name]; w.State != "active" || !slices.Equal(w.Devices, []string{tap}) {
				return fmt.Errorf("%s is %q with %q", name, w.State, w.Devices)
			}
		}
		return nil
	})
	t.Logf("\n%s", b.weir("get"))
	b.warmUp()
	w1, mail := policy.Policy{Weight: 1}, policy.Policy{Weight: 1, Min: policy.Amount{Percent: 40}}
	db1 := policy.Policy{Weight: 1, Max: policy.Amount{Percent: 10}}
	b.same("each interface by itself", b.full(0, 2*time.Second), b.ideal(w1, policy.Policy{Weight: 3}, db1, mail), unchanged)
	b.healthy()

	if !onBPF() {
		return // the fallback has no groups
	}
	b.weir("group", "set", "db", "--max", "20%")
	b.warmUp()
	link := b.ideal(w1, policy.Policy{Weight: 1, Max: policy.Amount{Percent: 20}}, mail)
	b.same("the machine as a group", b.full(0, 2*time.Second), []float64{link[0], link[1] * 3 / 4, link[1] / 4, link[2]}, unchanged)
	t.Logf("\n%s", b.weir("get"))
}
