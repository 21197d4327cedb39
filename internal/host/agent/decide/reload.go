// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"reflect"
	"slices"

	"weir/internal/config"
	"weir/internal/core/closest"
)

// CheckConfig refuses a configuration that is to replace the world's: one that most likely
// names a device wrong, or asks for what no link holds. devices are those that exist, none if
// that is not known.
func (w World) CheckConfig(next config.Config, devices []string) error {
	if err := mistyped(w.Config, next, devices); err != nil {
		return err
	}
	after := w.Clone()
	after.Config = next
	after.Abilities = after.expectedAbilities(w.Abilities)
	return newGaps(Decide(w.foreseen()), Decide(after.foreseen()), next.Path)
}

// mistyped refuses a configuration that gives a link back and names in its place a
// device that does not exist: most likely it is written wrong, and the link would be
// steered no longer. A device that is to come may be added beside the links. devices are those
// that exist, none if that is not known.
func mistyped(before, next config.Config, devices []string) error {
	has := func(links []config.Link, device string) bool {
		return slices.ContainsFunc(links, func(l config.Link) bool { return l.Device == device })
	}
	if len(devices) == 0 {
		return nil
	}
	gone := slices.DeleteFunc(slices.Clone(before.Links), func(l config.Link) bool {
		return has(next.Links, l.Device) || !slices.Contains(devices, l.Device)
	})
	for i, l := range next.Links {
		if len(gone) == 0 || has(before.Links, l.Device) || slices.Contains(devices, l.Device) {
			continue
		}
		remedy := "ip link shows those that there are"
		if near := closest.Words(l.Device, devices, 1); len(near) > 0 {
			remedy = fmt.Sprintf("did you mean %s?", near[0])
		}
		return fmt.Errorf("%s: links[%d].device: %q: no such network device, and link %s would be given back; %s",
			next.Path, i, l.Device, gone[0].Device, remedy)
	}
	return nil
}

// NeedRestart returns the names of the settings that differ and are read at the start only.
func NeedRestart(before, next config.Config) []string {
	var late []string
	for _, s := range []struct {
		name   string
		differ bool
	}{
		{"backend", before.Backend != next.Backend},
		{"cluster", !reflect.DeepEqual(before.Cluster, next.Cluster)},
		{"docker", before.Docker != next.Docker},
		{"group", before.Group != next.Group},
		{"mark_mask", before.MarkMask != next.MarkMask || before.MarkAuto != next.MarkAuto},
		{"metrics", !reflect.DeepEqual(before.Metrics, next.Metrics)},
		{"profile", before.Profile != next.Profile},
		{"sdn", before.SDN != next.SDN},
		{"socket", before.Socket != next.Socket},
		{"state_dir", before.StateDir != next.StateDir},
		{"view_group", before.ViewGroup != next.ViewGroup},
		{"web", !reflect.DeepEqual(before.Web, next.Web)},
	} {
		if s.differ {
			late = append(late, s.name)
		}
	}
	return late
}
