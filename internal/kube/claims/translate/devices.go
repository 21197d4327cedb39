// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"weir/internal/api"
	"weir/internal/core/policy"
)

// Inventory is what the devices of a node follow from.
type Inventory struct {
	Links []api.LinkStatus // as the agent said last
	Gone  bool             // the agent does not answer
	Zone  string           // of the node, "" = unknown
	Ports map[string]Port  // network devices of links, by name
	// WithoutTaints leaves devices with a taint out, for an API server that drops taints.
	WithoutTaints bool
}

// Port is what the host says of a network device.
type Port struct {
	Speed           int64  // Mbit/s, 0 = unknown
	Subnet, Subnet6 string // "" = unknown
}

// PerSlice is the number of devices that a ResourceSlice with taints may have.
const PerSlice = 64

// Slices returns the devices in the portions that ResourceSlices take; one that is empty where
// there are none, which says that the driver runs.
func Slices(devices []resourceapi.Device) [][]resourceapi.Device {
	if len(devices) == 0 {
		return [][]resourceapi.Device{nil}
	}
	return slices.Collect(slices.Chunk(devices, PerSlice))
}

// Devices returns a device for each network device that is a link, by name.
func Devices(n Inventory) []resourceapi.Device {
	byName := map[string]*resourceapi.Device{}
	for _, l := range n.Links {
		name := DeviceName(l.Device)
		d := byName[name]
		if d == nil {
			d = &resourceapi.Device{Name: name, AllowMultipleAllocations: new(true),
				Attributes: attributes(l, n), Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}}
			byName[name] = d
			if n.Gone {
				d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: TaintAgent, Value: "gone", Effect: resourceapi.DeviceTaintEffectNoSchedule})
			}
		}
		d.Capacity[capacityName(l.Direction)] = consumable(l.FreeBps + l.AllocatedBps)
		if unsteered(l) && !slices.ContainsFunc(d.Taints, func(t resourceapi.DeviceTaint) bool { return t.Key == TaintLink }) {
			d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: TaintLink, Value: "not-steered", Effect: resourceapi.DeviceTaintEffectNoSchedule})
		}
	}
	var list []resourceapi.Device
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if d := byName[name]; !n.WithoutTaints || len(d.Taints) == 0 {
			list = append(list, *d)
		}
	}
	return list
}

func unsteered(l api.LinkStatus) bool { return l.Error != "" || l.Backend == "none" }

// consumable returns a capacity that claims take parts of: none by default, else a multiple of
// step. What is left below one step is no capacity: a range needs room for one.
func consumable(bps uint64) resourceapi.DeviceCapacity {
	bps -= bps % step
	c := resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(min(bps, uint64(policy.MaxRate))), resource.DecimalSI)}
	if bps > 0 {
		zero := func() *resource.Quantity { return resource.NewQuantity(0, resource.DecimalSI) }
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: zero(),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: zero(), Step: resource.NewQuantity(step, resource.DecimalSI)}}
	}
	return c
}

func capacityName(direction string) resourceapi.QualifiedName {
	if direction == string(policy.Ingress) {
		return Ingress
	}
	return Egress
}

func attributes(l api.LinkStatus, n Inventory) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	list := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	port := n.Ports[l.Device]
	for name, text := range map[resourceapi.QualifiedName]string{
		AttributeInterface: l.Device, AttributeBackend: l.Backend, AttributeZone: n.Zone,
		AttributeSubnet: port.Subnet, AttributeSubnet6: port.Subnet6,
	} {
		if text != "" && len(text) <= resourceapi.DeviceAttributeMaxValueLength {
			list[name] = resourceapi.DeviceAttribute{StringValue: new(text)}
		}
	}
	if port.Speed > 0 {
		list[AttributeSpeed] = resourceapi.DeviceAttribute{IntValue: new(port.Speed)}
	}
	return list
}

// DeviceName returns the name by which Kubernetes knows a network device: its own, if that is a
// DNS label, else its letters with a digest that tells it from others: eth0.7 is eth0-7-a1b2c3d4.
func DeviceName(device string) string {
	label := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(device))
	label = strings.Trim(label[:min(len(label), 50)], "-")
	if label == device {
		return device
	}
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(device)) // it never fails
	return fmt.Sprintf("%s-%08x", cmp.Or(label, "link"), digest.Sum32())
}

// linkNamed returns the network device of links that has a device's name, "" if none has.
func linkNamed(device string, links []api.LinkStatus) string {
	i := slices.IndexFunc(links, func(l api.LinkStatus) bool { return DeviceName(l.Device) == device })
	if i < 0 {
		return ""
	}
	return links[i].Device
}
