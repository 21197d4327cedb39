// SPDX-License-Identifier: Apache-2.0

package api

// Allocation is a min on some links that is set aside for pods by their names, whether these are
// there or not.
type Allocation struct {
	Name  string         `json:"name" doc:"its identity, such as the UID of a claim"`
	For   string         `json:"for" doc:"what it is for, such as NAMESPACE/CLAIM"`
	Pods  []string       `json:"pods" doc:"NAMESPACE/POD; several have it together, as a group"`
	Class uint16         `json:"class" doc:"class number of the pod or of the group"`
	Mins  []AllocatedMin `json:"mins"`
}

// LinkMin is a min on one link.
type LinkMin struct {
	Device    string `json:"device" doc:"the link's" example:"eth0"`
	Direction string `json:"direction" enum:"egress,ingress"`
	MinBps    uint64 `json:"min_bps" example:"60000000"`
}

// AllocatedMin is what an allocation has on one link.
type AllocatedMin struct {
	LinkMin
	Held bool   `json:"held"`
	Note string `json:"note,omitempty" doc:"why it is not held"`
}

// AllocationRequest asks for an allocation.
type AllocationRequest struct {
	For  string    `json:"for" maxLength:"512" doc:"what it is for, such as NAMESPACE/CLAIM; no two allocations have the same" example:"default/uplink"`
	Pods []string  `json:"pods" maxItems:"256" doc:"NAMESPACE/POD, whether they are there or not; several have it together, as a group"`
	Mins []LinkMin `json:"mins" minItems:"1" maxItems:"256" doc:"one for each link"`
}
