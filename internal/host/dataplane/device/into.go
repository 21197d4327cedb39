// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// IntoFilter is a filter of another program on what a device of a workload sends into the workload.
type IntoFilter struct {
	Device   string
	Text     string // names the filter as tc does
	ByDevice bool   // it asks by which device a packet came (indev)
}

// indev is the number of the option by which a kind of filter asks for the device.
var indev = map[string]uint16{"u32": nl.TCA_U32_INDEV, "flower": nl.TCA_FLOWER_INDEV, "fw": nl.TCA_FW_INDEV}

// FiltersInto lists those of the devices of workloads, each priority once. A device that is gone
// has none.
func (c *Conn) FiltersInto(ports []string) (list []IntoFilter, err error) {
	with, err := c.Clsacts()
	if err != nil {
		return nil, err
	}
	for _, name := range ports {
		dev, err := c.Lookup(name)
		if errors.Is(err, dataplane.ErrNoDevice) || err == nil && !slices.Contains(with, dev.Index) {
			continue
		}
		if err != nil {
			return nil, err
		}
		bodies, err := c.Do(unix.RTM_GETTFILTER, unix.NLM_F_DUMP,
			&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(dev.Index), Parent: ClsactEgress})
		if err != nil {
			continue // the place for filters is gone
		}
		for _, body := range bodies {
			f, own, err := parseInto(body)
			if err != nil {
				return nil, err
			}
			f.Device = name
			switch last := len(list) - 1; {
			case own:
			case last >= 0 && list[last].Device == name && list[last].Text == f.Text: // its hashes, and its rules
				list[last].ByDevice = list[last].ByDevice || f.ByDevice
			default:
				list = append(list, f)
			}
		}
	}
	return list, nil
}

// parseInto reads a filter; own says that it is Weir's, or only begins those of a priority.
func parseInto(body []byte) (f IntoFilter, own bool, err error) {
	read, kind, err := parseFilter(body)
	if err != nil {
		return f, false, err
	}
	f = IntoFilter{Text: strings.TrimSpace(fmt.Sprintf("%s pref %d %s", kind, read.Priority, read.bpfName(kind)))}
	err = EachAttr(body[nl.SizeofTcMsg:], func(typ uint16, value []byte) error {
		if typ != nl.TCA_OPTIONS {
			return nil
		}
		return EachAttr(value, func(typ uint16, _ []byte) error {
			f.ByDevice = f.ByDevice || indev[kind] != 0 && typ == indev[kind]
			return nil
		})
	})
	return f, read.Handle == 0 || strings.HasPrefix(read.bpfName(kind), ownPrefix), err
}

// bpfName returns the name of a filter of the kind bpf, "" of others: their options have other
// meanings.
func (f Filter) bpfName(kind string) string {
	if kind == "bpf" {
		return f.Name
	}
	return ""
}
