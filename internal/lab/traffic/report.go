// SPDX-License-Identifier: Apache-2.0

package traffic

import "time"

// FlowReport holds the numbers that one flow's generator printed.
type FlowReport struct {
	Flow      int             `json:"flow"`            // index into the scenario's flows
	Began     time.Duration   `json:"began"`           // when its client was started
	Intervals []IperfInterval `json:"intervals"`       // tcp, udp
	Pings     []Ping          `json:"pings,omitempty"` // ping, in the order of their answers
	RR        *RR             `json:"rr,omitempty"`    // tcp_rr, udp_rr
	Problem   string          `json:"problem,omitempty"`
}

// IperfInterval is half a second of an iperf3 flow. Times count from the beginning
// of the scenario. Its bytes are not looked at: iperf3 counts them in whole blocks.
type IperfInterval struct {
	From        time.Duration `json:"from"`
	To          time.Duration `json:"to"`
	Retransmits uint64        `json:"retransmits"` // tcp: segments sent again
	Packets     uint64        `json:"packets"`     // udp: datagrams that should have come
	Lost        uint64        `json:"lost"`        // udp: of those, missing
	Jitter      time.Duration `json:"jitter"`      // udp: RFC 1889
}

// Ping is one answered echo request.
type Ping struct {
	At  time.Duration `json:"at"`
	Seq int           `json:"seq"`
	RTT time.Duration `json:"rtt"`
}

// RR is netperf's account of a tcp_rr flow.
type RR struct {
	P50  time.Duration `json:"p50"`
	P99  time.Duration `json:"p99"`
	Mean time.Duration `json:"mean"`
	Most time.Duration `json:"most"`
	Rate float64       `json:"rate"` // transactions per second
}
