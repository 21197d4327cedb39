// SPDX-License-Identifier: Apache-2.0

package remains

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// chain is a chain of nftables, of which the rules of iptables-nft are some as well.
type chain struct {
	family      byte
	table, name string
}

// Of the kernel's headers of nftables and nfnetlink.
const (
	batchBegin = 0x10
	batchEnd   = 0x11
	deleteNow  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE
	getChains  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN

	generalHeader = 4 // bytes of struct nfgenmsg: family, version, resource
)

// listChains returns the chains of this thread's network namespace, none where the kernel
// has no nftables.
func listChains() (list []chain, err error) {
	req := nl.NewNetlinkRequest(getChains, unix.NLM_F_DUMP)
	req.AddRawData([]byte{unix.NFPROTO_UNSPEC, 0, 0, 0})
	answers, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list the rules of a network namespace: %w", err)
	}
	for _, m := range answers {
		if len(m) < generalHeader {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[generalHeader:])
		if err != nil {
			return nil, err
		}
		c := chain{family: m[0]}
		for _, a := range attrs {
			switch a.Attr.Type {
			case unix.NFTA_CHAIN_TABLE:
				c.table = nl.BytesToString(a.Value)
			case unix.NFTA_CHAIN_NAME:
				c.name = nl.BytesToString(a.Value)
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// deleteTable removes a table of nftables from this thread's network namespace. The kernel
// takes changes in batches, a beginning and an end around them.
func deleteTable(family byte, name string) error {
	s, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer s.Close()
	border := func(kind uint16, seq uint32) []byte {
		return message(kind, unix.NLM_F_REQUEST, seq, unix.AF_UNSPEC, nil)
	}
	attr := nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(name)).Serialize()
	batch := border(batchBegin, 1)
	batch = append(batch, message(deleteNow, unix.NLM_F_REQUEST|unix.NLM_F_ACK, 2, family, attr)...)
	batch = append(batch, border(batchEnd, 3)...)
	if err := unix.Sendto(s.GetFd(), batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	for {
		answers, _, err := s.Receive()
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Header.Type == unix.NLMSG_ERROR && len(a.Data) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(a.Data)); code != 0 {
					return unix.Errno(-code)
				}
				return nil
			}
		}
	}
}

// message returns a netlink message of nfnetlink's.
func message(kind uint16, flags uint16, seq uint32, family byte, attrs []byte) []byte {
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+generalHeader+len(attrs)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = binary.NativeEndian.AppendUint16(m, flags)
	m = binary.NativeEndian.AppendUint32(m, seq)
	m = binary.NativeEndian.AppendUint32(m, 0) // from: this socket
	m = append(m, family, 0)
	m = binary.BigEndian.AppendUint16(m, unix.NFNL_SUBSYS_NFTABLES) // what a batch is for
	return append(m, attrs...)
}
