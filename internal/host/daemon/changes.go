// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane/device"
)

// The kernel sends notices of most of what takes the class or the mark from packets: of devices (of
// which discover.Links tells), qdiscs, filters of tc, rules of policy routing, and nftables. It
// sends none of tcx programs, and none of the older tables of iptables.

// noticed are the kinds of notices of NETLINK_ROUTE that count. Those of classes are left out: the
// fallback changes its own all the time.
var noticed = []uint16{unix.RTM_NEWQDISC, unix.RTM_DELQDISC, unix.RTM_NEWTFILTER, unix.RTM_DELTFILTER, unix.RTM_NEWRULE, unix.RTM_DELRULE}

// coalesce is how long notices are left unread after one that counts: one report stands for all
// that come meanwhile.
const coalesce = 100 * time.Millisecond

// followChanges reports that something has changed, until ctx ends.
func followChanges(ctx context.Context, changed chan<- struct{}) {
	follow(ctx, changed, unix.NETLINK_ROUTE, noticed, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	follow(ctx, changed, unix.NETLINK_NETFILTER, nil, unix.NFNLGRP_NFTABLES)
}

// report says that something has changed, to a channel that holds one such report.
func report(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// follow reports notices of the given kinds, nil = of all. A kernel without the protocol sends
// none.
func follow(ctx context.Context, changed chan<- struct{}, protocol int, kinds []uint16, groups ...uint) {
	socket, err := nl.Subscribe(protocol, groups...)
	if err != nil {
		return // the look that is due every 10 s finds what there is
	}
	stop := context.AfterFunc(ctx, socket.Close)
	go func() {
		defer stop()
		for ctx.Err() == nil {
			notices, _, err := socket.Receive()
			if err != nil && !errors.Is(err, unix.ENOBUFS) { // else some are lost
				return
			}
			if err == nil && !slices.ContainsFunc(notices, func(n syscall.NetlinkMessage) bool { return counts(n, kinds) }) {
				continue
			}
			report(changed)
			time.Sleep(coalesce)
		}
	}()
}

// counts reports whether a notice is of one of the kinds, and not of what the agent itself has
// done.
func counts(n syscall.NetlinkMessage, kinds []uint16) bool {
	return kinds == nil || slices.Contains(kinds, n.Header.Type) && !device.Asked(n.Header.Pid)
}

// olderTables reports whether rules of iptables may be there of which the kernel sends no notice.
func olderTables() bool {
	for _, file := range []string{"/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"} {
		if names, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(names)) != "" {
			return true
		}
	}
	return false
}
