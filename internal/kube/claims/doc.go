// SPDX-License-Identifier: Apache-2.0

// Package claims is the DRA driver weir.dev of a node. The scheduler of Kubernetes admits mins:
// the driver publishes each link of the agent as a device with a consumable bandwidth, and has
// the agent hold what a claim was allocated.
//
//	agent ──links──► driver ──ResourceSlices──► API server ──► scheduler
//	agent ◄─mins──── driver ◄──Prepare, Unprepare──── kubelet ◄──claim──┘
//	                 driver ──claim's status.devices──► API server
//
//	err := claims.Run(ctx, claims.Options{Node: "n1", Client: client, Agent: api.NewClient(""), Log: log})
//
// Prepare comes before the pod has a sandbox. The agent holds the min from then on for a pod of
// that name, whether it is there or not (api.Allocation), and keeps it in its own state over
// restarts of both programs. So the driver has no checkpoint: what the agent holds is what was
// prepared, and Prepare and Unprepare may come any number of times.
//
// A claim that several pods use is one min of all of them together. Kubelet prepares it for the
// first pod only, so the driver watches such a claim, and no other, for the pods that follow.
//
// What is decided about devices, claims and their status is in package translate, which is pure.
package claims
