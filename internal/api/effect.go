// SPDX-License-Identifier: Apache-2.0

package api

// Effect is what a change does to the rate of a workload or group on a link.
type Effect struct {
	Name      string `json:"name"`
	Group     bool   `json:"group,omitempty" doc:"a group of workloads"`
	Device    string `json:"device" doc:"the link's"`
	Direction string `json:"direction" enum:"egress,ingress"`
	// The two rates of now follow from the demand of the last second.
	NowBeforeBps float64 `json:"now_before_bps" doc:"rate that the contract gives it, from the demand of all over the last second"`
	NowAfterBps  float64 `json:"now_after_bps" doc:"the same with the change"`
	// The two others say what holds whatever the workloads do.
	BusyBeforeBps float64 `json:"busy_before_bps" doc:"rate that the contract gives it while all want all that they can get"`
	BusyAfterBps  float64 `json:"busy_after_bps" doc:"the same with the change"`
}
