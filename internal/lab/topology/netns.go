// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// NS is a network namespace.
type NS struct {
	Name   string
	handle netns.NsHandle
	link   *netlink.Handle // speaks netlink inside
}

// Current is the namespace that the process runs in.
func Current(name string) (*NS, error) {
	h, err := netns.Get()
	if err != nil {
		return nil, fmt.Errorf("open the present network namespace: %w", err)
	}
	return open(name, h)
}

// create makes a namespace with IPv6 off and its loopback up.
func create(name string) (*NS, error) {
	made, err := nsthread.New(quiet)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", name, err)
	}
	n, err := open(name, made)
	if err != nil {
		return nil, err
	}
	return n, n.up("lo")
}

// path leads to the namespace for as long as n is open.
func (n *NS) path() string { return fmt.Sprintf("/proc/self/fd/%d", int(n.handle)) }

func open(name string, h netns.NsHandle) (*NS, error) {
	l, err := netlink.NewHandleAt(h, unix.NETLINK_ROUTE) // the others need not exist
	if err != nil {
		return nil, fmt.Errorf("open netlink in network namespace %s: %w", name, err)
	}
	return &NS{Name: name, handle: h, link: l}, nil
}

// Do runs f inside the namespace.
func (n *NS) Do(f func() error) error {
	return nsthread.In(n.handle, f)
}

// Start starts a program inside the namespace.
func (n *NS) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// Tc runs iproute2's tc inside the namespace with a script of commands, one per
// line.
func (n *NS) Tc(script string) error {
	cmd := exec.Command("tc", "-batch", "-")
	cmd.Stdin = strings.NewReader(script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := n.Do(cmd.Run)
	if err == nil {
		return nil
	}
	if strings.Contains(out.String(), "qdisc kind is unknown") || strings.Contains(out.String(), "No such file or directory") {
		return fmt.Errorf("%w: tc %s", ErrNoQdisc, firstLine(out.String()))
	}
	return fmt.Errorf("tc: %w: %s", err, strings.TrimSpace(out.String()))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// askForECN makes TCP ask for ECN, and grant it.
func askForECN() error {
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_ecn", []byte("1"), 0); err != nil {
		return fmt.Errorf("set net.ipv4.tcp_ecn: %w", err)
	}
	return nil
}

// quiet silences whatever sends packets by itself, and makes TCP the same on
// every machine.
func quiet() error {
	must := map[string]string{
		"net/ipv4/tcp_no_metrics_save": "1", // a connection starts without knowledge of the last
	}
	may := map[string]string{ // absent on some kernels
		"net/ipv6/conf/all/disable_ipv6":     "1",
		"net/ipv6/conf/default/disable_ipv6": "1",
		"net/bridge/bridge-nf-call-iptables": "0",
		"net/ipv4/tcp_congestion_control":    "cubic",
	}
	for key, value := range must {
		if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0); err != nil {
			return fmt.Errorf("set %s: %w", strings.ReplaceAll(key, "/", "."), err)
		}
	}
	for key, value := range may {
		_ = os.WriteFile("/proc/sys/"+key, []byte(value), 0)
	}
	return nil
}
