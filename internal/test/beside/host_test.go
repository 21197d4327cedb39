// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// capacity is what the link is given, in bit/s: little enough for an emulated CPU.
const capacity = 2_000_000

const (
	uplink     = "up0"
	uplinkMAC  = "02:00:00:00:09:01"
	uplinkAddr = "10.9.0.1"
	farAddr    = "10.9.0.2"
)

// weights are those of the workloads.
var weights = map[string]int{"three": 3, "one": 1}

// host is the machine with a link to the far end and two workloads that send.
type host struct {
	t    *testing.T
	link string // the device that Weir shares
}

// newHost makes the link, the far end and the workloads. They are gone with the test.
func newHost(t *testing.T, m manager) *host {
	h := &host{t, cmp.Or(m.link, uplink)}
	t.Cleanup(h.tell)
	h.run("sysctl -q net.ipv4.ip_forward=1")
	h.namespace("far")
	h.run("ip link add " + uplink + " address " + uplinkMAC + " type veth peer name eth0 netns far")
	t.Cleanup(func() { h.run("ip link del " + uplink) })
	h.run("ip -n far address add " + farAddr + "/24 dev eth0")
	h.run("ip -n far link set eth0 up")
	h.run("ip netns exec far nft -f - <<'E'\ntable ip seen {\n chain in { type filter hook prerouting priority -300;\n" +
		"  ip saddr 10.9.3.2 counter name three drop\n  ip saddr 10.9.1.2 counter name one drop\n  ip saddr " + uplinkAddr + " udp dport 9 counter name guest drop\n }\n" +
		" counter three {}\n counter one {}\n counter guest {}\n}\nE")
	h.start("far", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=eth0", "--bind-interfaces",
		"--dhcp-authoritative", "--no-ping", "--dhcp-range="+uplinkAddr+","+uplinkAddr+",1h", "--dhcp-host="+uplinkMAC+","+uplinkAddr,
		"--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"), "--dhcp-option=option:router,"+farAddr)
	for name, weight := range weights {
		h.namespace(name)
		net := fmt.Sprintf("10.9.%d.", weight)
		h.run("ip link add up-" + name + " type veth peer name eth0 netns " + name)
		t.Cleanup(func() { h.run("ip link del up-" + name) })
		h.run("ip address add " + net + "1/24 dev up-" + name)
		h.run("ip link set up-" + name + " up")
		h.run("ip -n " + name + " address add " + net + "2/24 dev eth0")
		h.run("ip -n " + name + " link set eth0 up")
		h.run("ip -n " + name + " route add default via " + net + "1")
	}
	return h
}

// send has the workloads send.
func (h *host) send(m manager) {
	h.t.Helper()
	for name := range weights {
		h.start(name, must(os.Executable()), sendArg, cmp.Or(m.far, farAddr)+":9")
	}
}

// tell prints what there is to look at if the test failed.
func (h *host) tell() {
	if h.t.Failed() {
		out, _ := h.try("ip address; ip rule; ip route; tc qdisc show; systemctl --failed --no-pager; journalctl --no-pager --output short-monotonic | tail -n 60")
		h.t.Log(out)
	}
}

// namespace makes a network namespace.
func (h *host) namespace(name string) {
	h.t.Helper()
	h.run("ip netns add " + name)
	h.t.Cleanup(func() { h.run("ip netns del " + name) })
	h.run("ip -n " + name + " link set lo up")
}

// start starts a program in a namespace that runs until the test ends.
func (h *host) start(netns string, command ...string) {
	h.t.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", netns}, command...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// patience bounds a command and all that is waited for without a bound of its own.
const patience = time.Minute

// try runs a line of shell.
func (h *host) try(line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "bash", "-c", line).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return string(out), err
}

// run runs a line of shell that has to succeed.
func (h *host) run(line string) string {
	h.t.Helper()
	out, err := h.try(line)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// write writes a file that is gone with the test.
func (h *host) write(path, text string) {
	h.t.Helper()
	before, err := os.ReadFile(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	mode := os.FileMode(0o644)
	if strings.HasSuffix(path, ".nmconnection") || strings.HasPrefix(path, "/etc/netplan/") {
		mode = 0o600 // their readers want that
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err == nil {
			_ = os.WriteFile(path, before, 0o644)
		} else {
			_ = os.Remove(path)
		}
	})
}

// await waits until check is content, and returns how long that took.
func (h *host) await(within time.Duration, what string, check func() error) time.Duration {
	h.t.Helper()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > within {
			h.t.Fatalf("%s: not within %v: %v", what, within, err)
		}
		time.Sleep(200 * time.Millisecond) // a look starts programs, which takes an emulated CPU long
	}
}

// reachable waits until the link has its address and a packet passes.
func (m manager) reachable(h *host) {
	h.t.Helper()
	dev := cmp.Or(m.address, uplink)
	h.await(patience, "the far end answers", func() error {
		_, err := h.try("ip -4 -o address show dev " + dev + " | grep -q " + uplinkAddr + " && ping -n -c 1 -W 1 " + cmp.Or(m.far, farAddr))
		return err
	})
}

// arrived returns the packets of the workloads that the far end has received.
func (h *host) arrived() map[string]float64 {
	h.t.Helper()
	var answer struct {
		Nftables []struct {
			Counter struct {
				Name    string
				Packets float64
			}
		}
	}
	if err := json.Unmarshal([]byte(h.run("ip netns exec far nft -j list counters")), &answer); err != nil {
		h.t.Fatal(err)
	}
	got := map[string]float64{}
	for _, item := range answer.Nftables {
		if item.Counter.Name != "" {
			got[item.Counter.Name] = item.Counter.Packets
		}
	}
	return got
}

// share returns how many packets of three and of a manager's guest arrive for one of one, and what
// arrives of the link's capacity.
func (h *host) share(over time.Duration) (ratio, guest, used float64) {
	h.t.Helper()
	begin, before := time.Now(), h.arrived()
	time.Sleep(over)
	now, took := h.arrived(), time.Since(begin)
	three, one, other := now["three"]-before["three"], now["one"]-before["one"], now["guest"]-before["guest"]
	return three / max(one, 1), other / max(one, 1), (three + one + other) * (packetBytes + 14) * 8 / took.Seconds() / capacity
}

// root returns the qdisc at the link's root, as tc prints it, "" if the link is not there.
func (h *host) root() string {
	h.t.Helper()
	out, _ := h.try("tc qdisc show dev " + h.link)
	for line := range strings.Lines(out) {
		if strings.Contains(line, " root ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// watch looks at the link's root all the time.
type watch struct {
	stop, done chan struct{}
	times      int           // how often it was not Weir's
	longest    time.Duration // for how long
}

// watch begins to look.
func (h *host) watch() *watch {
	w := &watch{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		var since time.Time // when it ceased to be Weir's
		for {
			if ours := h.rootIsWeirs(); ours {
				since = time.Time{}
			} else if since.IsZero() {
				since = time.Now()
				w.times++
			} else {
				w.longest = max(w.longest, time.Since(since))
			}
			select {
			case <-w.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return w
}

// end returns how often the root was not Weir's, and for how long at most.
func (w *watch) end() (times int, longest time.Duration) {
	close(w.stop)
	<-w.done
	return w.times, w.longest
}

// rootIsWeirs says whether Weir has the link, or there is none: a tunnel's device comes and goes.
func (h *host) rootIsWeirs() bool {
	link, err := netlink.LinkByName(h.link)
	if err != nil {
		return true
	}
	qdiscs, err := netlink.QdiscList(link)
	return err == nil && slices.ContainsFunc(qdiscs, func(q netlink.Qdisc) bool {
		return q.Attrs().Parent == netlink.HANDLE_ROOT && strings.HasPrefix(q.Type(), "weir")
	})
}
