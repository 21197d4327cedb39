// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"

	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dump"
)

// lookLinks reads the named devices, else those of the configuration, else that of the
// default route.
func lookLinks(c Seen[config.Config], named []string) []Link {
	conn, err := device.Open()
	if err != nil {
		return nil
	}
	defer conn.Close()
	var found []Link
	of := func(name string, asked bool) Link {
		link := Link{Name: name, Asked: asked}
		for _, l := range c.Value.Links {
			if l.Device == name {
				link.Capacity, link.Force = uint64(l.Egress), l.Force
			}
		}
		return link
	}
	for _, name := range named {
		found = append(found, of(name, true))
	}
	if len(named) == 0 {
		for _, l := range c.Value.Links {
			found = append(found, of(l.Device, true))
		}
	}
	if name := defaultRoute(); len(found) == 0 && name != "" {
		found = append(found, of(name, false))
	}
	for i := range found {
		found[i].look(conn, dataplane.Options{StateDir: c.Value.StateDir})
	}
	return found
}

// look fills in the device's settings in the kernel.
func (l *Link) look(conn *device.Conn, opts dataplane.Options) {
	dev, err := conn.Lookup(l.Name)
	if err != nil {
		l.Missing = err.Error()
		return
	}
	at, err := net.InterfaceByName(l.Name)
	if err == nil {
		l.Setters = setters(os.DirFS("/"), l.Name, at.Index)
	}
	if err == nil && at.Flags&net.FlagUp == 0 {
		l.Down = "the device is down, so nothing is sent"
	} else if err == nil && at.Flags&net.FlagRunning == 0 {
		l.Down = "the device has no carrier, so nothing is sent"
	}
	root, err := conn.Root(dev)
	l.Root = Seen[string]{root.String(), err}
	switch {
	case root.Ours():
		l.RootKind = RootOurs
	case root.Foreign():
		l.RootKind = RootForeign
	default:
		l.Root.Value = root.Kind
	}
	if under, err := device.Below(conn, dev); err == nil {
		for _, carrier := range under {
			if root, err := conn.Root(carrier); err == nil && root.Foreign() {
				l.Below = append(l.Below, carrier.Name+": "+root.String())
			}
		}
	}
	if former, err := conn.Former(dev, opts); err == nil { // else it is not known
		l.Former = former
	}
	if queues, err := filepath.Glob("/sys/class/net/" + l.Name + "/queues/tx-*"); err == nil {
		l.TxQueues = len(queues)
	}
	if speed := number("/sys/class/net/" + l.Name + "/speed"); speed.Err == nil {
		l.SpeedMbps = max(speed.Value, 0) // -1: the device does not know
	}
	l.GSO = dev.GSOMaxSize
	l.SplitOver = device.SplitOver(policy.Rate(l.Capacity))
	splitter, err := conn.Splitter()
	l.Whole = err == nil && splitter == device.Splitter{}
}

// defaultRoute returns the device that packets to anywhere leave by, "" if there is none.
func defaultRoute() string {
	routes, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return ""
	}
	for _, r := range routes {
		whole := r.Dst == nil
		if r.Dst != nil {
			ones, _ := r.Dst.Mask.Size()
			whole = ones == 0
		}
		if dev, err := net.InterfaceByIndex(r.LinkIndex); whole && err == nil {
			return dev.Name
		}
	}
	return ""
}

// lookMarks reads the rules of nftables, iptables and policy routing, filters of tc, IPsec,
// WireGuard and the marks of sockets.
func lookMarks(ctx context.Context) Marks {
	var m Marks
	for _, name := range deviceNames() {
		if product := productOf(name); product != "" && !slices.Contains(m.Products, product) {
			m.Products = append(m.Products, product)
		}
	}
	unread := func(what string, err error) {
		m.Unread = append(m.Unread, fmt.Errorf("%s cannot be read: %w", what, err))
	}
	readers := 0
	for _, tool := range []string{"iptables-save", "ip6tables-save", "iptables-legacy-save", "ip6tables-legacy-save"} {
		out, err := run(ctx, tool)
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		readers++
		if err != nil {
			unread("rules of "+tool, err)
		}
		m.add(iptablesMarks(string(out)))
	}
	out, err := run(ctx, "nft", "-j", "list", "ruleset")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		if readers == 0 && tablesLoaded() {
			unread("rules of netfilter", errNoReader)
		}
	case err != nil:
		unread("rules of nftables", err)
	default:
		m.Flowtables = flowtables(out)
		users, err := nftMarks(out)
		if err != nil {
			unread("rules of nftables", err)
		}
		m.add(users)
	}
	rules, err := dump.Whole(func() ([]netlink.Rule, error) { return netlink.RuleList(netlink.FAMILY_ALL) })
	if err != nil {
		unread("rules of policy routing", err)
	}
	m.add(routingMarks(rules))
	filters, err := device.MarkingFilters()
	if err != nil {
		unread("filters of tc", err)
	}
	m.add(filterMarks(filters))
	secured, err := lookIPsecMarks()
	if err != nil {
		unread("policies of IPsec", err)
	}
	m.add(secured)
	tunnels, err := lookWireGuardMarks()
	if err != nil {
		unread("marks of WireGuard", err)
	}
	m.add(tunnels)
	sockets, err := lookSocketMarks()
	if err != nil {
		unread("marks of sockets", err)
	}
	m.add(sockets)
	return m
}

// add appends users that are not there yet: iptables-save may print what another
// form of it has printed.
func (m *Marks) add(users []MarkUser) {
	there := map[MarkUser]bool{}
	for _, u := range m.Users {
		there[u] = true
	}
	for _, u := range users {
		if !there[u] {
			m.Users, there[u] = append(m.Users, u), true
		}
	}
}

// tablesLoaded says whether the kernel has any filter of packets: if not, there is
// nothing to read.
func tablesLoaded() bool {
	for _, module := range []string{"nf_tables", "ip_tables", "ip6_tables"} {
		if _, err := os.Stat("/sys/module/" + module); err == nil {
			return true
		}
	}
	return false
}

// routingMarks returns the rules of policy routing that compare the mark.
func routingMarks(rules []netlink.Rule) []MarkUser {
	var users []MarkUser
	for _, r := range rules {
		mask := uint32(allBits)
		if r.Mask != nil {
			mask = *r.Mask
		}
		if r.Mark != 0 || r.Mask != nil { // the kernel says no mask of a rule without a mark
			value := r.Mark & mask
			if r.Invert {
				value = 0
			}
			users = append(users, MarkUser{Bits: mask, Reads: true, Value: value, Rule: fmt.Sprintf("%v (fwmark %#x/%#x)", r, r.Mark, mask)})
		}
	}
	return users
}

// sockets are where container engines listen, beside the one that weir.yaml names.
var sockets = []struct{ name, path string }{
	{"docker", "/var/run/docker.sock"},
	{"podman", "/run/podman/podman.sock"},
	{"containerd", "/run/containerd/containerd.sock"},
	{"crio", "/run/crio/crio.sock"},
}

func lookEngines(ctx context.Context, c Seen[config.Config]) []EngineSocket {
	list := slices.Clone(sockets)
	if path := c.Value.Docker.Socket; path != "" && path != list[0].path {
		list = append(list, struct{ name, path string }{"docker", path})
	}
	var found []EngineSocket
	for _, s := range list {
		if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		e := EngineSocket{Name: s.name, Socket: s.path}
		if s.name == "docker" || s.name == "podman" {
			e.Version.Value, e.Version.Err = engineVersion(ctx, s.path)
		}
		found = append(found, e)
	}
	return found
}

// engineVersion asks what speaks Docker's API at a socket.
func engineVersion(ctx context.Context, socket string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/version", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", errors.Unwrap(err) // without the URL, which is made up
	}
	defer resp.Body.Close()
	var answer struct{ Version string }
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Version, err
}
