// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/ecdh"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
)

// byWireGuard is a tunnel to the server. The kernel encrypts on threads of its own, and sends by a
// socket of its own, with a mark of the workload's choice.
var byWireGuard = way{name: "WireGuard", kinds: ownNetwork, how: "a tunnel to the server, with the mark of another workload", end: charged,
	setup: func(x *attack) error {
		link := int(x.From.To4()[1]) - 88
		err := firstOf(x.do("ip link add v0 type wireguard", "ip addr add 10.99.0.1/24 dev v0"),
			wireGuard{device: "v0", key: 1, port: wireGuardPort, mark: x.mark(),
				peer: 2, endpoint: x.To, endpointPort: wireGuardPort + link}.configure(),
			x.do("ip link set v0 up"))
		x.From, x.To = []byte{10, 99, 0, 1}, []byte{10, 99, 0, 2}
		return err
	},
	after: func(r *run) {
		name := fmt.Sprintf("v%d", r.link)
		device := &netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: name}}
		r.srv.must("make "+name, r.srv.LinkAdd(device))
		r.t.Cleanup(func() { r.srv.must("remove "+name, r.srv.LinkDel(device)) })
		r.srv.must("configure "+name, nsthread.In(r.srv.handle, wireGuard{device: name, key: 2, port: wireGuardPort + r.link,
			peer: 1, endpoint: r.attack.From, endpointPort: wireGuardPort, keepalive: 1}.configure))
		r.srv.up(name) // begins the session
	}}

const wireGuardPort = 51820

// wireGuard is a device with one peer. Keys are numbers, of which every byte is made.
type wireGuard struct {
	device             string
	key, peer          byte
	port, endpointPort int
	endpoint           net.IP
	mark               uint32
	keepalive          uint16 // seconds
}

// configure sets the device up, in the namespace of the calling thread (linux/wireguard.h).
func (w wireGuard) configure() error {
	family, err := netlink.GenlFamilyGet("wireguard")
	if err != nil {
		return err
	}
	private, public := curveKey(w.key), curveKey(w.peer).PublicKey()
	endpoint := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	endpoint = append(binary.BigEndian.AppendUint16(endpoint, uint16(w.endpointPort)), w.endpoint.To4()...)
	all := nl.NewRtAttr(unix.NLA_F_NESTED, nil)
	all.AddRtAttr(unix.WGALLOWEDIP_A_FAMILY, nl.Uint16Attr(unix.AF_INET))
	all.AddRtAttr(unix.WGALLOWEDIP_A_IPADDR, make([]byte, 4))
	all.AddRtAttr(unix.WGALLOWEDIP_A_CIDR_MASK, nl.Uint8Attr(0))
	allowed := nl.NewRtAttr(unix.WGPEER_A_ALLOWEDIPS|unix.NLA_F_NESTED, nil)
	allowed.AddChild(all)
	peer := nl.NewRtAttr(unix.NLA_F_NESTED, nil)
	peer.AddRtAttr(unix.WGPEER_A_PUBLIC_KEY, public.Bytes())
	peer.AddRtAttr(unix.WGPEER_A_ENDPOINT, append(endpoint, make([]byte, 8)...))
	peer.AddRtAttr(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, nl.Uint16Attr(w.keepalive))
	peer.AddChild(allowed)
	peers := nl.NewRtAttr(unix.WGDEVICE_A_PEERS|unix.NLA_F_NESTED, nil)
	peers.AddChild(peer)
	request := nl.NewNetlinkRequest(int(family.ID), unix.NLM_F_ACK)
	request.AddData(genericHeader{unix.WG_CMD_SET_DEVICE, unix.WG_GENL_VERSION})
	request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_IFNAME, nl.ZeroTerminated(w.device)))
	request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_PRIVATE_KEY, private.Bytes()))
	request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_LISTEN_PORT, nl.Uint16Attr(uint16(w.port))))
	request.AddData(nl.NewRtAttr(unix.WGDEVICE_A_FWMARK, nl.Uint32Attr(w.mark)))
	request.AddData(peers)
	_, err = request.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// genericHeader is struct genlmsghdr. nl.Genlmsg does not clear the bytes that the kernel reserves.
type genericHeader [4]byte

func (h genericHeader) Len() int          { return len(h) }
func (h genericHeader) Serialize() []byte { return h[:] }

func curveKey(of byte) *ecdh.PrivateKey {
	bytes := make([]byte, 32)
	for i := range bytes {
		bytes[i] = of
	}
	key, err := ecdh.X25519().NewPrivateKey(bytes)
	if err != nil {
		panic(err)
	}
	return key
}
