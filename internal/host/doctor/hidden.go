// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
)

// SkippedFilters returns where a filter of another program on what goes into a workload does not do
// with what Weir steers what it does without Weir. Ports are the devices of workloads, back is the
// device by which the packets come back.
func SkippedFilters(ports []string, back string) ([]Trouble, error) {
	return skippedFilters(ports, back, mark.HaveTCX())
}

func skippedFilters(ports []string, back string, tcx bool) (list []Trouble, err error) {
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	filters, err := conn.FiltersInto(ports)
	for _, f := range filters {
		switch {
		case !tcx:
			list = append(list, Trouble{f.Device, fmt.Sprintf("the kernel skips the filter %s of another program, or runs it twice, for what Weir steers into the workload", f.Text),
				"run Linux 6.6 or later, have netfilter do what the filter does, or steer no ingress (links in weir.yaml)"})
		case f.ByDevice:
			list = append(list, Trouble{f.Device, fmt.Sprintf("the filter %s of another program asks by which device a packet came: for what Weir steers into the workload that is %s", f.Text, back),
				"add the same filter for " + back + ", or have netfilter ask (iifname, iptables -i), which comes before"})
		}
	}
	return list, err
}
