// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
)

// packetFlags are the flags that describe a packet.
type packetFlags struct {
	tcp, udp, to, from string
	icmp               bool
	setQueue           uint16
	api.Packet
}

// packetFlagNames are all of them.
var packetFlagNames = []string{"tcp", "udp", "icmp", "proto", "to", "from", "dscp", "vlan", "priority", "mark", "set-queue"}

func (p *packetFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVar(&p.tcp, "tcp", "", "a packet of TCP to `ADDR:PORT`; either may be left out: 10.0.0.2:, :5060")
	fs.StringVar(&p.udp, "udp", "", "a packet of UDP to `ADDR:PORT`")
	fs.BoolVar(&p.icmp, "icmp", false, "a packet of ICMP; of ICMPv6 if an address is IPv6")
	fs.StringVar(&p.Proto, "proto", "", "a packet of the protocol `PROTO`: sctp, esp, gre or a number")
	fs.StringVar(&p.to, "to", "", "the packet's receiver, `ADDR` or ADDR:PORT, beside --icmp or --proto")
	fs.StringVar(&p.from, "from", "", "the packet's sender, `ADDR` or ADDR:PORT")
	fs.StringVar(&p.DSCP, "dscp", "", "the packet's `DSCP`: ef, 46")
	fs.Uint16Var(&p.VLAN, "vlan", 0, "`ID` of the packet's VLAN tag")
	fs.Uint32Var(&p.Priority, "priority", 0, "the packet's skb->priority, `N`")
	fs.Uint32Var(&p.Mark, "mark", 0, "the packet's skb->mark, `N`")
	fs.Uint16Var(&p.setQueue, "set-queue", 0, "the queue `N` that Open vSwitch's set_queue gave the packet")
	for _, name := range packetFlagNames {
		// Only fails for a flag that does not exist.
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// largestVLAN is the largest id of a VLAN tag (802.1Q).
const largestVLAN = 4094

// exclusive are flags of which a packet has one at most.
var exclusive = [][]string{{"tcp", "udp", "icmp", "proto"}, {"tcp", "udp", "to"}, {"priority", "set-queue"}}

// packet returns the packet that the flags describe, if any of them is given.
func (p *packetFlags) packet(c *cobra.Command) (packet api.Packet, given bool, err error) {
	for _, name := range packetFlagNames {
		given = given || c.Flags().Changed(name)
	}
	for _, flags := range exclusive {
		first := ""
		for _, name := range flags {
			if c.Flags().Changed(name) && first != "" {
				return packet, given, frame.Usagef("--%s: the packet is described by --%s already; leave one of them out", name, first)
			} else if c.Flags().Changed(name) {
				first = name
			}
		}
	}
	if p.VLAN > largestVLAN {
		return packet, given, frame.Usagef("--vlan %d: out of range; write the id of a tag, 1 to %d", p.VLAN, largestVLAN)
	}
	packet = p.Packet
	ends := []struct {
		flag, text, proto string
		addr              *string
		port              *uint16
	}{
		{"tcp", p.tcp, "tcp", &packet.Dst, &packet.Dport},
		{"udp", p.udp, "udp", &packet.Dst, &packet.Dport},
		{"to", p.to, "", &packet.Dst, &packet.Dport},
		{"from", p.from, "", &packet.Src, &packet.Sport},
	}
	for _, end := range ends {
		if !c.Flags().Changed(end.flag) {
			continue
		}
		if *end.addr, *end.port, err = splitEnd(end.flag, end.text); err != nil {
			return packet, given, err
		}
		if end.proto != "" {
			packet.Proto = end.proto
		}
	}
	if p.icmp {
		packet.Proto = "icmp"
		if strings.Contains(packet.Src+packet.Dst, ":") {
			packet.Proto = "icmp6"
		}
	}
	if c.Flags().Changed("set-queue") {
		packet.Priority = 1<<16 | uint32(p.setQueue+1) // class 1:N+1
	}
	return packet, given, nil
}

// splitEnd reads one end of a packet: ADDR, ADDR:PORT, [ADDR]:PORT, :PORT or ADDR:.
func splitEnd(flag, text string) (addr string, port uint16, err error) {
	if ip, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return ip.String(), 0, nil
	}
	at := strings.LastIndexByte(text, ':')
	wrong := frame.Usagef("--%s %q: not an address and a port; write 10.0.0.2:5060, [2001:db8::1]:5060, 10.0.0.2 or :5060", flag, text)
	if at < 0 {
		return "", 0, wrong
	}
	if host := strings.Trim(text[:at], "[]"); host != "" {
		ip, err := netip.ParseAddr(host)
		if err != nil {
			return "", 0, wrong
		}
		addr = ip.String()
	}
	if text[at+1:] != "" {
		n, err := strconv.ParseUint(text[at+1:], 10, 16)
		if err != nil {
			return "", 0, wrong
		}
		port = uint16(n)
	}
	return addr, port, nil
}

// renderPlacement returns the queue that a packet joins, as text.
func renderPlacement(p api.Placement) string {
	if p.Queue == "" {
		return p.Text + "\n"
	}
	return p.Name + ", " + p.Discipline + ": queue " + p.Queue + "\n  " + p.Text + "\n"
}
