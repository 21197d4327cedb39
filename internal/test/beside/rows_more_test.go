// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"os"
	"strings"
)

// openVPN has a tunnel through the link, whose other end serves.
func openVPN() manager {
	const conf = "dev tun9\nproto udp\nport 1194\ncipher AES-256-CBC\nsecret /etc/openvpn/static.key\nkeepalive 1 10\n"
	return manager{
		name:  "OpenVPN",
		units: []string{"openvpn-client@far", "openvpn-far"},
		setUp: func(h *host) {
			h.static()
			h.run("openvpn --genkey secret /etc/openvpn/static.key")
			h.write("/etc/openvpn/far-end.conf", conf+"float\nifconfig 10.9.8.2 10.9.8.1\n")
			h.write("/etc/openvpn/client/far.conf", conf+"remote "+farAddr+"\nifconfig 10.9.8.1 10.9.8.2\n")
			h.write("/etc/systemd/system/openvpn-far.service", "[Service]\nExecStart=/usr/bin/ip netns exec far /usr/sbin/openvpn --config /etc/openvpn/far-end.conf\n")
			h.unit("openvpn-far")
			h.unit("openvpn-client@far")
		},
		state: "ip -o -4 address show dev tun9 | sed 's/^[0-9]*: //'; ping -n -q -c 1 -W 1 10.9.8.2 | grep received | cut -d, -f1-2",
		works: []string{"systemctl restart openvpn-client@far", "systemctl kill --signal HUP openvpn-client@far", "systemctl kill --signal USR1 openvpn-client@far", "systemctl restart openvpn-far"},
	}
}

// openVPNLink has Weir on the tunnel's device, which goes and comes again with its client.
func openVPNLink() manager {
	m := openVPN()
	m.name, m.link, m.far = "OpenVPN-tun", "tun9", "10.9.8.2"
	for i := range m.works { // some return before the device has gone
		m.works[i] += "; sleep 1; until ip -o address show dev tun9 2>/dev/null | grep -q 10.9.8.1; do sleep 0.1; done"
	}
	m.mends = 1
	m.says = 2 // that it waits for the device, and after a second that the link is gone
	return m
}

// firewalld trusts all devices, so that the workloads' packets pass.
func firewalld() manager {
	return manager{
		name:  "firewalld",
		units: []string{"firewalld"},
		setUp: func(h *host) {
			h.static()
			h.run("sed -i s/^DefaultZone=.*/DefaultZone=trusted/ /etc/firewalld/firewalld.conf")
			h.unit("firewalld")
		},
		state: "firewall-cmd --state; firewall-cmd --list-all; nft -s list ruleset",
		works: []string{"systemctl restart firewalld", "firewall-cmd --reload", "firewall-cmd --complete-reload", "firewall-cmd --add-port 99/udp && firewall-cmd --remove-port 99/udp"},
	}
}

// docker restarts below a container that sends, and which it starts again.
func docker() manager {
	return manager{
		name:  "Docker",
		units: []string{"docker"},
		setUp: func(h *host) {
			h.static()
			h.unit("docker")
			h.t.Cleanup(func() { h.run("docker rm --force web; docker network prune --force") })
			h.run("mkdir -p /tmp/image && cp " + must(os.Executable()) + " /tmp/image/beside && tar -C /tmp/image --create . | docker import - beside")
			h.run("docker run --detach --restart always --name web beside /beside " + sendArg + " " + farAddr + ":9")
		},
		state:  "docker ps --format '{{.Names}} {{.State}}'; docker network ls --format '{{.Name}}'; iptables-save | grep -v '^[#:]'",
		works:  []string{"systemctl restart docker", "systemctl reload docker", "docker network create more && docker network rm more", "docker restart --time 0 web"},
		guest:  "web",
		docker: true,
		says:   2, // of a workload without a network, and of an engine that does not answer
	}
}

// libvirt has a guest with limits of its own in a network of its own: an ingress qdisc with a
// policer, and HTB, at the device that Weir takes as a workload. Its network is behind rules for
// address translation.
func libvirt() manager {
	const network = `<network><name>inside</name><forward mode="nat"/><bridge name="virbr9" stp="off" delay="0"/><dns enable="no"/>
<ip address="10.9.9.1" netmask="255.255.255.0"/></network>`
	const guest = `<domain type="lxc"><name>box</name><memory unit="MiB">64</memory>
<os><type>exe</type><init>/beside</init><initarg>` + sendArg + `</initarg><initarg>` + farAddr + `:9</initarg></os>
<devices><filesystem type="mount"><source dir="/srv/box"/><target dir="/"/></filesystem><console type="pty"/>
<interface type="network"><source network="inside"/><bandwidth><inbound average="4000"/><outbound average="4000"/></bandwidth>
<ip address="10.9.9.2" prefix="24"/><route address="0.0.0.0" prefix="0" gateway="10.9.9.1"/></interface></devices></domain>`
	const port = "$(virsh -c lxc:/// domiflist box | awk '$2 == \"network\" {print $1}')"
	return manager{
		name:  "libvirt",
		units: []string{"libvirtd"},
		setUp: func(h *host) {
			h.static()
			h.unit("libvirtd")
			h.write("/etc/libvirt/inside.xml", network)
			h.write("/etc/libvirt/other.xml", strings.NewReplacer("inside", "other", "virbr9", "virbr8", "10.9.9.1", "10.9.7.1").Replace(network))
			h.write("/etc/libvirt/box.xml", guest)
			h.run("mkdir -p /var/lib/libvirt/dnsmasq /srv/box/proc /srv/box/sys /srv/box/dev && cp " + must(os.Executable()) + " /srv/box/beside")
			h.run("virsh -c lxc:/// net-define /etc/libvirt/inside.xml && virsh -c lxc:/// net-start inside && virsh -c lxc:/// define /etc/libvirt/box.xml")
			h.t.Cleanup(func() {
				h.run("virsh -c lxc:/// undefine box; virsh -c lxc:/// net-destroy inside; virsh -c lxc:/// net-undefine inside")
			})
			h.run("virsh -c lxc:/// start box")
			h.t.Cleanup(func() { h.run("virsh -c lxc:/// destroy box") })
		},
		state: "virsh -c lxc:/// list --name; virsh -c lxc:/// net-list --name; nft -s list ruleset; " +
			"tc qdisc show dev " + port + " | grep -E 'htb|ingress|clsact' | cut -d' ' -f2; tc filter show dev " + port + " ingress | grep -oE 'rate .*'",
		works:  []string{"virsh -c lxc:/// destroy box; virsh -c lxc:/// start box", "systemctl restart libvirtd", "virsh -c lxc:/// net-create /etc/libvirt/other.xml && virsh -c lxc:/// net-destroy other"},
		guest:  "box",
		attach: `{device: "vnet*"}`,
		config: "mark_mask: auto\n", // its policer ends with OK, which writes where the class is
	}
}
