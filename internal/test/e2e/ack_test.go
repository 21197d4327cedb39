// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"
)

const ackLine, ackDown = 500e3, 30e6

// downloadBesideUpload is what a workload downloads of ackDown while it uploads all that it can on
// a line of ackLine, Mbit/s. Every second packet has an ACK, as where packets come from another
// host: with segmentation offload there would be one for twenty.
func downloadBesideUpload(t *testing.T, shape func(*bed)) float64 {
	const lasts = 10 * time.Second
	b := newBed(t, 1, 1)
	b.capacity = ackLine
	b.srv.run("ip link set eth0 gso_max_segs 1")
	b.srv.run(fmt.Sprintf("tc qdisc replace dev eth0 root tbf rate %dbit burst 32k latency 50ms", int(ackDown)))
	launch(b.boxes[0], "receive").read()
	shape(b)
	b.tcp(0, 1)
	launch(b.srv, "tcp", fmt.Sprintf("%s:%d", workloadAt(0, 1).ip, tcpPort))
	time.Sleep(time.Second)
	before := b.srv.device("eth0").Attrs().Statistics.TxBytes
	time.Sleep(lasts)
	return float64(b.srv.device("eth0").Attrs().Statistics.TxBytes-before) * 8 / lasts.Seconds() / 1e6
}

// TestACKsGiveWay: the ACKs of a download of 30 Mbit/s want more than their half of a line of 0.5
// Mbit/s beside an upload. With ack-filter the download has what it has with CAKE's filter, and
// more than without one.
func TestACKsGiveWay(t *testing.T) {
	if *backend != "bpf" {
		t.Skip("skipped: the tc fallback has no ack-filter; a VM (vm/run) has")
	}
	down := map[string]float64{}
	for name, filter := range map[string]string{"cake": "ack-filter", "cake without": "no-ack-filter"} {
		t.Run(name, func(t *testing.T) {
			down[name] = downloadBesideUpload(t, func(b *bed) {
				b.host.run(fmt.Sprintf("tc qdisc replace dev up0 root cake bandwidth %dbit %s", int(ackLine), filter))
			})
		})
	}
	for name, aqm := range map[string]string{"weir": "on ack-filter", "weir without": "on"} {
		t.Run(name, func(t *testing.T) {
			var a *agent
			down[name] = downloadBesideUpload(t, func(b *bed) {
				b.configure("")
				a = b.start()
				b.steered(a)
				b.weir("set", "w1", "--aqm", aqm)
			})
			link := a.workload("w1").Links[0]
			t.Logf("%d ACKs gave way, half of the packets waited for less than %.1f ms", link.ThinnedPackets, link.Delay.P50Ms)
			if (link.ThinnedPackets > 0) != (name == "weir") {
				t.Errorf("%d ACKs gave way", link.ThinnedPackets)
			}
		})
	}
	t.Logf("the download, Mbit/s: %.4v", down)
	if with := down["weir"]; with < 0.95*down["cake"] || with < 1.2*down["weir without"] {
		t.Errorf("the download has less than with CAKE's filter, or hardly more than without one; Mbit/s: %.4v", down)
	}
}
