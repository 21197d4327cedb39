// SPDX-License-Identifier: Apache-2.0

package beside

import "fmt"

func managers() []manager {
	return []manager{
		networkd(),
		networkdQdisc("CAKE", "cake", "Bandwidth=50M\n"),
		networkdQdisc("FairQueueing", "fq", "PacketLimit=5000\n"),
		networkdQdisc("NetworkEmulator", "netem", "PacketLimit=5000\n"),
		networkManager("NetworkManager", ""),
		networkManagerQdisc(),
		openVSwitch(),
		flush(),
		netplan(),
		ifupdown(),
		dhcpcd(),
		openVPN(),
		openVPNLink(),
		firewalld(),
		docker(),
		libvirt(),
	}
}

// unit starts a unit that is stopped when the test ends.
func (h *host) unit(name string) {
	h.t.Helper()
	h.t.Cleanup(func() { h.run("systemctl stop " + name + " 2>&1; systemctl reset-failed " + name + " 2>&1; true") })
	h.run("systemctl daemon-reload && systemctl restart " + name)
}

// static gives the link its address, for a manager that does other things.
func (h *host) static() {
	h.t.Helper()
	h.run("ip address add " + uplinkAddr + "/24 dev " + uplink + " && ip link set " + uplink + " up")
}

// networkdFile has systemd-networkd manage the link.
const networkdFile = "/etc/systemd/network/10-up0.network"

// networkctlState prints what networkctl says of the link, but for its log.
const networkctlState = "networkctl --no-pager --lines 0 status up0 | grep -E '^ *(State|Online state|Address|Gateway|Network File):'"

// networkd takes no care of qdiscs that its files do not name.
func networkd() manager {
	return manager{
		name:  "systemd-networkd",
		units: []string{"systemd-networkd"},
		setUp: func(h *host) {
			h.write(networkdFile, "[Match]\nName=up0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n")
			h.unit("systemd-networkd")
		},
		state: networkctlState,
		works: []string{"systemctl restart systemd-networkd", "networkctl reload", "networkctl reconfigure up0", "networkctl renew up0", "networkctl down up0; networkctl up up0"},
	}
}

// networkdQdisc has a file with a section that sets a qdisc: networkd sets it anew whenever it
// configures the link.
func networkdQdisc(section, kind, settings string) manager {
	m := networkd()
	m.name += "-" + section
	m.root, m.force, m.mends = kind, true, 1
	m.doctor = "systemd-networkd: [" + section + "] in " + networkdFile
	m.works = m.works[:3]
	m.setUp = func(h *host) {
		h.write(networkdFile, "[Match]\nName=up0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n["+section+"]\nParent=root\n"+settings)
		h.unit("systemd-networkd")
	}
	return m
}

// networkManager has a profile for the link, with more settings where they are given.
func networkManager(name, more string) manager {
	return manager{
		name:  name,
		units: []string{"NetworkManager"},
		setUp: func(h *host) {
			h.write("/etc/NetworkManager/conf.d/up0.conf", "[main]\nplugins=keyfile\nno-auto-default=*\n"+
				"[device-up0]\nmatch-device=interface-name:up0\nmanaged=1\n[device-rest]\nmatch-device=except:interface-name:up0\nmanaged=0\n")
			h.write("/etc/NetworkManager/system-connections/up0.nmconnection",
				"[connection]\nid=up0\ntype=ethernet\ninterface-name=up0\n[ipv4]\nmethod=auto\n[ipv6]\nmethod=disabled\n"+more)
			h.unit("NetworkManager")
		},
		state: "nmcli --terse --fields DEVICE,STATE,CONNECTION device | grep ^up0:; nmcli --terse --fields NAME,STATE connection show --active | grep ^up0:",
		works: []string{"systemctl restart NetworkManager", "nmcli connection reload", "nmcli connection up up0", "nmcli device reapply up0", "nmcli connection down up0; nmcli connection up up0"},
	}
}

// networkManagerQdisc has a profile that sets a qdisc.
func networkManagerQdisc() manager {
	m := networkManager("NetworkManager-tc", "[tc]\nqdisc.root=fq_codel limit 500\n")
	m.root, m.force, m.mends = "fq_codel", true, 2 // down and up are two
	m.doctor = "NetworkManager: [tc] in /etc/NetworkManager/system-connections/up0.nmconnection"
	return m
}

// netplan writes files for networkd.
func netplan() manager {
	return manager{
		name:  "netplan",
		units: []string{"systemd-networkd"},
		setUp: func(h *host) {
			h.write("/etc/netplan/10-up0.yaml", "network: {version: 2, renderer: networkd, ethernets: {up0: {dhcp4: true, link-local: []}}}\n")
			h.t.Cleanup(func() { h.run("rm -rf /run/systemd/network; systemctl stop systemd-networkd") })
			h.run("netplan apply")
		},
		state: networkctlState,
		works: []string{"netplan apply", "systemctl restart systemd-networkd", "netplan generate && networkctl reload", "networkctl reconfigure up0"},
	}
}

func ifupdown() manager {
	return manager{
		name:  "ifupdown",
		units: []string{"networking"},
		setUp: func(h *host) {
			h.write("/etc/network/interfaces", fmt.Sprintf("auto up0\niface up0 inet static\n  address %s/24\n  gateway %s\n", uplinkAddr, farAddr))
			h.unit("networking")
		},
		state: "ifquery --state up0",
		works: []string{"systemctl restart networking", "ifdown up0 && ifup up0", "ifdown --all --exclude=lo && ifup --all"},
	}
}

func dhcpcd() manager {
	return manager{
		name:  "dhcpcd",
		units: []string{"dhcpcd-up0"},
		setUp: func(h *host) {
			h.write("/etc/systemd/system/dhcpcd-up0.service", "[Service]\nExecStart=/usr/sbin/dhcpcd --nobackground --ipv4only --noarp up0\n")
			h.unit("dhcpcd-up0")
		},
		state: "dhcpcd --ipv4only --dumplease up0 2>/dev/null | grep -E '^(ip_address|routers|subnet_mask)='",
		works: []string{"systemctl restart dhcpcd-up0", "dhcpcd --ipv4only --rebind up0", "ip link set up0 down; ip link set up0 up"},
	}
}

// openVSwitch has the link as a port of a bridge, whose qdisc it was not told to leave alone: when
// its daemon starts, it takes away what it finds there. The class has to be in the mark, too: what
// the daemon decides on loses the seal.
func openVSwitch() manager {
	return manager{
		name:    "Open-vSwitch",
		units:   []string{"ovs-vswitchd", "ovsdb-server"},
		address: "sw0",
		setUp: func(h *host) {
			h.unit("openvswitch-switch")
			h.t.Cleanup(func() { h.run("ovs-vsctl del-br sw0") })
			h.run("ovs-vsctl add-br sw0 -- add-port sw0 up0 && ip link set up0 up && ip link set sw0 up && ip address add " + uplinkAddr + "/24 dev sw0")
			h.t.Cleanup(func() { h.run("systemctl start openvswitch-switch") })
		},
		state:  "ovs-vsctl --columns=name,error,link_state list interface up0; ovs-vsctl list-ports sw0",
		works:  []string{"systemctl restart ovs-vswitchd && ip link set sw0 up && ip address replace " + uplinkAddr + "/24 dev sw0", "ovs-vsctl add-port sw0 x0 -- set interface x0 type=internal && ovs-vsctl del-port x0"},
		mends:  1,
		config: "mark_mask: 0xffff0000\n",
	}
}

// flush is what some firewalls' scripts do, all the time.
func flush() manager {
	return manager{
		name:  "nft-flush",
		units: []string{"flush"},
		setUp: func(h *host) {
			h.static()
			h.write("/etc/systemd/system/flush.service", "[Service]\nExecStart=/bin/bash -c 'while nft flush ruleset; do sleep 0.2; done'\n")
			h.unit("flush")
		},
		state: "nft list ruleset",
		works: []string{"systemctl restart flush", "nft flush ruleset", "nft add table inet mine && nft flush ruleset"},
	}
}
