// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"weir/internal/host/sdn"
	"weir/internal/test/goldentest"
)

func TestRenderSDN(t *testing.T) {
	text := renderSDN(nil) + "\n" + renderSDN([]sdn.Bridge{
		{Name: "s1", ForeignFlows: 12, Ports: []sdn.Port{
			{Name: "eth3", Foreign: "linux-htb"},
			{Name: "up0", Device: "up0", BandwidthBps: 8e6, Discipline: "llq", Queues: []sdn.Queue{
				{Name: "voice", Number: 0, RateBps: 1e6, DSCP: new(uint8(46)), Flows: 1, Packets: 4402, Bytes: 6471000},
				{Name: "rest", Number: 1, MinBps: 7e6},
			}},
			{Name: "up1", Device: "up1", BandwidthBps: 1e9, Discipline: "sfq"},
			{Name: "up2", Note: `port up2 of bridge s1: weir-discipline "cbq": no such discipline`},
		}, Flows: []sdn.Flow{
			{Priority: 60000, Match: "in_port=1,udp,udp_dst=5001", Actions: "set_queue:0,output:9", Packets: 4402, Bytes: 6471000},
		}},
		{Name: "s2", ForeignFlows: 1},
	})
	goldentest.Check(t, "testdata/sdn-show.golden", text)
}
