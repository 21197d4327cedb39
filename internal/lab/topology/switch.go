// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weir/internal/lab/scenario"
)

// Bridge is the name of the switch, and CablePort the port of it that the shared
// link, Uplink, comes in by again.
const (
	Bridge     = "s1"
	CablePort  = "up1"
	serverPort = "srv"
)

// Switch is an Open vSwitch of the lab's own.
type Switch struct {
	folder string // of its sockets and logs
}

// Database is the address of the switch's database.
func (s *Switch) Database() string { return "unix:" + filepath.Join(s.folder, "db.sock") }

// daemonPath has ovs-vswitchd, which Debian keeps out of PATH.
const daemonPath = "/usr/lib/openvswitch-switch"

// modules that the kernel does not load by itself everywhere; without sch_htb Open
// vSwitch takes a queue without a word and shapes nothing.
var modules = []string{"openvswitch", "veth", "sch_htb"}

// switchPatience is how long a daemon of the switch may take to come up.
const switchPatience = 30 * time.Second

// BuildSwitch makes a switch with a host per workload. What they send to the
// receiver goes through the cable, whose one end is the shared link:
//
//	w1 ──┐
//	w2 ──┼─ s1 ── up0 ══ up1 ── s1 ── srv
//	w3 ──┘
//
// The way back goes past the cable, and so does what iperf3's client and server of
// a udp flow have to say to each other, by TCP at the same port: it would wait in
// the queues that are measured. folder is for the switch's files.
func BuildSwitch(spec scenario.Link, workloads int, flows []scenario.Flow, folder string) (*Net, error) {
	host, err := Current("host")
	if err != nil {
		return nil, err
	}
	n := &Net{Host: host, spec: spec, Switch: &Switch{folder}}
	if err := host.Do(quiet); err != nil {
		return nil, err
	}
	if err := host.up("lo"); err != nil {
		return nil, err
	}
	if err := n.Switch.start(); err != nil {
		return nil, err
	}
	if n.Server, err = create("srv"); err != nil {
		return nil, err
	}
	if err := n.veth(host, serverPort, "", n.Server, ServerDevice, serverMAC); err != nil {
		return nil, err
	}
	if err := n.veth(host, Uplink, "", host, CablePort, nil); err != nil {
		return nil, err
	}
	for w := range workloads {
		if err := n.workload(w, false); err != nil {
			return nil, err
		}
	}
	return n, n.connect(flows)
}

// start starts the database and the switch; they end with the lab's host.
func (s *Switch) start() error {
	if _, err := exec.LookPath("ovs-vsctl"); err != nil {
		return errors.New("topology ovs needs Open vSwitch, which is not installed; run the scenario in the VM (vm/run)")
	}
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return err
	}
	if out, err := exec.Command("modprobe", append([]string{"-a"}, modules...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("topology ovs needs the kernel's modules %s: %s; run the scenario in the VM (vm/run)",
			strings.Join(modules, ", "), firstLine(string(out)))
	}
	database := filepath.Join(s.folder, "conf.db")
	if _, err := s.run(nil, "ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema"); err != nil {
		return err
	}
	if err := s.daemon("ovsdb-server", database, "--remote=p"+s.Database(), "--no-chdir"); err != nil {
		return err
	}
	if err := s.await(func() error { _, err := os.Stat(filepath.Join(s.folder, "db.sock")); return err }); err != nil {
		return err
	}
	if err := s.Control("--no-wait", "init"); err != nil {
		return err
	}
	return s.daemon(filepath.Join(daemonPath, "ovs-vswitchd"), s.Database(), "--no-chdir")
}

func (s *Switch) await(up func() error) error {
	for deadline := time.Now().Add(switchPatience); ; time.Sleep(20 * time.Millisecond) {
		err := up()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("open vSwitch does not come up within %v: %w", switchPatience, err)
		}
	}
}

// environment makes Open vSwitch's programs look into the folder.
func (s *Switch) environment() []string {
	return append(os.Environ(), "LC_ALL=C", "OVS_RUNDIR="+s.folder, "OVS_LOGDIR="+s.folder, "OVS_DBDIR="+s.folder)
}

func (s *Switch) daemon(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = s.environment()
	log, err := os.Create(filepath.Join(s.folder, filepath.Base(name)+".log"))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = cmd.Wait(); log.Close() }()
	return nil
}

func (s *Switch) run(stdin []byte, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdin = s.environment(), bytes.NewReader(stdin)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}

// Control runs ovs-vsctl.
func (s *Switch) Control(args ...string) error {
	_, err := s.run(nil, "ovs-vsctl", append([]string{"--timeout=30"}, args...)...)
	return err
}

// connect makes the bridge with its ports and the flows that lead to the receiver
// and back.
func (n *Net) connect(list []scenario.Flow) error {
	args := []string{"add-br", Bridge, "--", "set", "bridge", Bridge, "fail_mode=secure", "protocols=OpenFlow10,OpenFlow13"}
	port := func(device string, number int) {
		args = append(args, "--", "add-port", Bridge, device, "--", "set", "interface", device, fmt.Sprintf("ofport_request=%d", number))
	}
	count := len(n.Workloads)
	server, up, back := count+1, count+2, count+3
	var flows strings.Builder
	for w, ns := range n.Workloads {
		port(ns.Name, w+1)
		fmt.Fprintf(&flows, "priority=40,in_port=%d,actions=output:%d\n", w+1, up)
		fmt.Fprintf(&flows, "priority=50,in_port=%d,dl_dst=%s,actions=output:%d\n", server, mac(1, w+1), w+1)
	}
	for _, f := range list {
		if f.Kind == scenario.UDP { // before Weir's own, which begin at 60000
			fmt.Fprintf(&flows, "priority=65000,tcp,in_port=%d,tp_dst=%d,actions=output:%d\n", f.Workload+1, f.Listen, server)
		}
	}
	port(serverPort, server)
	port(Uplink, up)
	port(CablePort, back)
	fmt.Fprintf(&flows, "priority=70,in_port=%d,actions=output:%d\n", back, server)
	if err := n.Switch.Control(args...); err != nil {
		return err
	}
	_, err := n.Switch.run([]byte(flows.String()), "ovs-ofctl", "-O", "OpenFlow13", "add-flows", Bridge, "-")
	return err
}
