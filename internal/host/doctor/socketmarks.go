// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dump"
)

// The kernel's interface to sockets, as far as it is needed: linux/sock_diag.h, linux/inet_diag.h.
const (
	diagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	diagCondition = 1  // INET_DIAG_REQ_BYTECODE
	diagRequest   = 56 // bytes of struct inet_diag_req_v2
	diagAnswer    = 72 // bytes of struct inet_diag_msg
	diagUser      = 64 // where the user stands in it
)

// marked is a program for the kernel: sockets whose mark is not 0. It has two operations, each with
// what to skip where its condition holds (8 bits) and where it does not (16 bits):
// INET_DIAG_BC_MARK_COND (10) with value and mask, which skips the other one where the mark is not
// 0, and INET_DIAG_BC_JMP (1) to beyond the end, by which a socket is left out.
func marked() (program []byte) {
	order := binary.NativeEndian
	program = order.AppendUint16([]byte{10, 12}, 16)
	program = order.AppendUint32(order.AppendUint32(program, 0), allBits)
	return order.AppendUint16(append(program, 1, 4), 8)
}

// lookSocketMarks reads the marks that programs have given their sockets of this network namespace
// (SO_MARK), which no rule need compare.
func lookSocketMarks() (users []MarkUser, err error) {
	for _, kind := range []struct {
		name     string
		protocol byte
	}{{"TCP", unix.IPPROTO_TCP}, {"UDP", unix.IPPROTO_UDP}, {"raw", unix.IPPROTO_RAW}} {
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			found, unread := dump.Whole(func() ([]MarkUser, error) { return socketMarks(kind.name, kind.protocol, family) })
			if unread != nil && !errors.Is(unread, unix.ENOENT) { // the kernel does not tell of such sockets
				err = errors.Join(err, fmt.Errorf("%s sockets: %w", kind.name, unread))
			}
			users = append(users, found...)
		}
	}
	return users, err
}

func socketMarks(name string, protocol, family byte) (users []MarkUser, err error) {
	request := make([]byte, diagRequest)
	request[0], request[1] = family, protocol
	binary.NativeEndian.PutUint32(request[4:], allBits) // in all states
	q := nl.NewNetlinkRequest(diagByFamily, unix.NLM_F_DUMP)
	q.AddRawData(append(request, nl.NewRtAttr(diagCondition, marked()).Serialize()...))
	err = q.ExecuteIter(unix.NETLINK_SOCK_DIAG, 0, func(answer []byte) bool {
		if len(answer) < diagAnswer {
			return true
		}
		dump.Attributes(answer[diagAnswer:], func(kind uint16, value []byte) {
			if kind == netlink.INET_DIAG_MARK && len(value) == 4 {
				mark := binary.NativeEndian.Uint32(value)
				users = append(users, MarkUser{Rule: fmt.Sprintf("SO_MARK %#x of a %s socket of user %d", mark, name, binary.NativeEndian.Uint32(answer[diagUser:])), Bits: mark})
			}
		})
		return true
	})
	return users, err
}
