// SPDX-License-Identifier: Apache-2.0

package e2e

// product is a program that marks packets on a router, or compares their marks, by rules that it
// documents or prints. vpn, iso and up0 are the router's devices, br0 its containers' bridge.
type product struct {
	name  string
	rules string // for a shell
}

// cutOff keeps containers from the isolated network, as the last rule of a firewall.
const cutOff = `
iptables -w -A FORWARD -i br0 -o iso -j DROP`

var products = []product{
	// 0x40000: it came by the tunnel; 0x80000: it may not go into the tunnel.
	{"Tailscale", `iptables -w -N ts-forward
iptables -w -A FORWARD -j ts-forward
iptables -w -A ts-forward -i vpn -j MARK --set-xmark 0x40000/0xff0000
iptables -w -A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT
iptables -w -A ts-forward -s 100.64.0.0/10 -o vpn -j DROP
iptables -w -A ts-forward -o vpn -j ACCEPT
iptables -w -t nat -N ts-postrouting
iptables -w -t nat -A POSTROUTING -j ts-postrouting
iptables -w -t nat -A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE
ip rule add pref 210 fwmark 0x80000/0xff0000 lookup main
ip rule add pref 250 fwmark 0x80000/0xff0000 unreachable
ip rule add pref 270 lookup 52` + cutOff},
	{"Docker, iptables", `iptables -w -N DOCKER-USER
iptables -w -N DOCKER-FORWARD
iptables -w -A FORWARD -j DOCKER-USER
iptables -w -A FORWARD -j DOCKER-FORWARD
iptables -w -A DOCKER-FORWARD -m mark --mark 0x20000/0x30000 -j ACCEPT
iptables -w -A DOCKER-FORWARD -i br0 ! -o br0 -j MARK --or-mark 0x1
iptables -w -t nat -A POSTROUTING -s 10.88.0.0/16 ! -o br0 -j MASQUERADE` + cutOff},
	{"Docker, nftables", `nft -f - <<END
table ip docker-bridges {
	chain filter-FORWARD {
		type filter hook forward priority filter
		meta mark & 0x30000 == 0x20000 counter accept
		iifname "br0" oifname "iso" counter drop
	}
	chain nat-POSTROUTING {
		type nat hook postrouting priority srcnat
		ip saddr 10.88.0.0/16 oifname != "br0" counter masquerade
	}
}
END`},
	{"firewalld", `nft -f - <<END
table inet firewalld {
	chain mangle_PREROUTING {
		type filter hook prerouting priority mangle + 10
		udp dport 443 counter meta mark set (meta mark & 0xffffff00) | 0x64
	}
	chain filter_FORWARD {
		type filter hook forward priority filter + 10
		ct state established,related accept
		meta mark 0x64 counter accept
		iifname "br0" oifname "iso" counter reject
	}
}
END`},
	{"policy-based routing", `nft -f - <<END
table inet pbr {
	chain prerouting {
		type filter hook prerouting priority mangle
		udp dport 443 counter meta mark set (meta mark & 0xff00ffff) | 0x10000
	}
}
END
ip rule add pref 290 fwmark 0x10000/0xff0000 lookup 52
ip rule add pref 291 fwmark 0x20000/0xff0000 unreachable`},
	{"a transparent proxy", `iptables -w -t mangle -A PREROUTING -i br0 -p udp --dport 443 -j TPROXY --tproxy-mark 0x1/0x1 --on-port 50080
ip rule add pref 200 fwmark 1 lookup 100`},
	{"strongSwan", `ip rule add pref 220 not fwmark 0x42 lookup 52
iptables -w -t mangle -A PREROUTING -i br0 -p udp --dport 443 -j MARK --set-mark 0x42`},
	{"kube-proxy", `iptables -w -t nat -N KUBE-MARK-MASQ
iptables -w -t nat -N KUBE-POSTROUTING
iptables -w -N KUBE-FIREWALL
iptables -w -A FORWARD -j KUBE-FIREWALL
iptables -w -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
iptables -w -t nat -A PREROUTING -p udp --dport 443 -j KUBE-MARK-MASQ
iptables -w -t nat -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
iptables -w -t nat -A POSTROUTING -j KUBE-POSTROUTING
iptables -w -t nat -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
iptables -w -t nat -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
iptables -w -t nat -A KUBE-POSTROUTING -j MASQUERADE` + cutOff},
	{"Calico", `iptables -w -t raw -N cali-PREROUTING
iptables -w -t raw -A PREROUTING -j cali-PREROUTING
iptables -w -t raw -A cali-PREROUTING -i br0 -p udp --dport 443 -j MARK --set-xmark 0x40000/0x40000
iptables -w -N cali-FORWARD
iptables -w -A FORWARD -j cali-FORWARD
iptables -w -A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000
iptables -w -A cali-FORWARD -m mark --mark 0x10000/0x10000 -j ACCEPT
iptables -w -A cali-FORWARD -m mark --mark 0x40000/0x40000 -j MARK --set-xmark 0x20000/0x20000
iptables -w -A cali-FORWARD -m mark --mark 0x20000/0x20000 -j DROP` + cutOff},
	{"Cilium", `ip rule add pref 109 fwmark 0x200/0xf00 lookup 52
ip rule add pref 110 fwmark 0xa00/0xf00 unreachable
iptables -w -N CILIUM_FORWARD
iptables -w -A FORWARD -j CILIUM_FORWARD
iptables -w -A CILIUM_FORWARD -m mark --mark 0xe00/0xf00 -j ACCEPT
iptables -w -t mangle -A PREROUTING -p udp --dport 443 -j MARK --set-xmark 0x200/0xffffffff` + cutOff},
	{"ufw", `iptables -w -N ufw-before-forward
iptables -w -N ufw-user-forward
iptables -w -A FORWARD -j ufw-before-forward
iptables -w -A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
iptables -w -A ufw-before-forward -j ufw-user-forward
iptables -w -A ufw-user-forward -p udp --dport 53 -j ACCEPT
iptables -w -A ufw-user-forward -m mark ! --mark 0 -j DROP` + cutOff},
	{"a mark without a mask, kept with the connection", `nft -f - <<END
table ip theirs {
	chain in {
		type filter hook prerouting priority mangle
		udp dport 443 counter meta mark set 7
		udp dport 53 ct state new counter meta mark set meta mark | 0x90000
		ct state new ct mark set meta mark
	}
	chain forward {
		type filter hook forward priority filter
		ct mark 0x90000 meta mark 0x90000 counter accept
		meta mark 0 counter accept
		counter drop
	}
}
END`},
}

// forget takes all rules away.
const forget = `nft flush ruleset
for pref in $(ip rule | sed -n 's/^\([12][0-9][0-9]\):.*/\1/p'); do ip rule del pref $pref; done`
