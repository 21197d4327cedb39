// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"testing"

	"weir/internal/host/dataplane/device/netnstest"
)

// Filters of others on what goes into a workload are named where Weir changes what they do: with
// tcx those alone that ask for the device, without it all, and Weir's own never.
func TestSkippedFilters(t *testing.T) {
	ns := netnstest.Enter(t)
	for _, name := range []string{"port0", "port1", "port2"} {
		ns.Run("ip", "link", "add", name, "type", "veth", "peer", "name", "peer-"+name)
	}
	ns.Run("tc", "qdisc", "add", "dev", "port0", "clsact")
	ns.Run("tc", "qdisc", "add", "dev", "port1", "ingress")
	check := func(what string, with, without int) {
		t.Helper()
		for tcx, want := range map[bool]int{true: with, false: without} {
			list, err := skippedFilters([]string{"port0", "port1", "port2", "gone"}, "weir-ib-eth0", tcx)
			if err != nil || len(list) != want || slices.ContainsFunc(list, func(l Trouble) bool { return l.About != "port0" || l.Remedy == "" }) {
				t.Errorf("%s, tcx %v: %+v, %v; want %d at port0", what, tcx, list, err, want)
			}
		}
	}
	const any = "match u32 0 0 flowid 1:5"
	add := func(device, side string, pref int, more string) {
		ns.Run("sh", "-c", fmt.Sprintf("tc filter add dev %s %s pref %d protocol ip u32 %s %s", device, side, pref, more, any))
	}
	check("no filter", 0, 0)
	add("port0", "ingress", 7, "")
	add("port1", "parent ffff:", 7, "")
	check("filters on what the workload sends", 0, 0)
	add("port0", "egress", 7, "")
	check("a filter", 0, 1)
	add("port0", "egress", 8, "indev port1")
	check("a filter that asks for the device", 1, 2)
	ns.Run("tc", "filter", "del", "dev", "port0", "egress")
	check("no filter any more", 0, 0)
}
