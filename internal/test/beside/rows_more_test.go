// SPDX-License-Identifier: Apache-2.0

package beside

import "os"

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
