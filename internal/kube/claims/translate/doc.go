// SPDX-License-Identifier: Apache-2.0

// Package translate puts what the agent knows of links into the words of Kubernetes' dynamic
// resource allocation (DRA), and what a claim was allocated into a request to the agent. It is
// pure: the same links make the same devices, so a driver can compare.
//
//	Devices   links -> the devices of a ResourceSlice: a link is a device whose bandwidth pods
//	          consume together (KEP-5075), as much of it as mins may take and the mins of others
//	          (of the host, of annotations, of containers beside Kubernetes) leave
//	Ask       an allocated claim -> the mins that its pods have on links, or a refusal
//	Status    what the agent says of these mins -> the claim's status.devices (KEP-4817)
//
// Example: eth0 carries 100 Mbit/s, of which mins may take 90 %, and a container has a min of 10
// Mbit/s. The device eth0 has bandwidth 80M. A claim of 60M of it for the pod shop/web becomes
// the allocation {pods: [shop/web], mins: [{eth0 egress 60 Mbit/s}]}.
//
// What it does not do: speak to kubelet, the API server or the agent (package claims does).
package translate

// Driver is the name of the DRA driver.
const Driver = "weir.dev"

// The names of a device's capacities, in bits per second: what pods send and what they receive.
// A capacity's name is a C identifier, so it has no dash.
const (
	Egress  = "bandwidth"
	Ingress = "ingressBandwidth"
)

// The names of a device's attributes, which the CEL expression of a claim can select by:
// device.attributes["weir.dev"].interface == "eth0".
const (
	AttributeInterface = "interface" // name of the network device
	AttributeBackend   = "backend"   // bpf, tc, none
	AttributeSpeed     = "speed"     // Mbit/s, as the network card says
	AttributeZone      = "zone"      // of the node
	AttributeSubnet    = "subnet"    // first IPv4 prefix of the network device: 10.0.0.0/24
	AttributeSubnet6   = "subnet6"   // first IPv6 prefix that is not link-local
)

// The keys of taints, each of which keeps new pods off a device; those that run there stay.
const (
	TaintAgent = Driver + "/agent" // the agent does not answer
	TaintLink  = Driver + "/link"  // the agent does not steer the link now
)

// step is the unit of a claim, in bits per second; policy.MinRate.
const step = 1000
