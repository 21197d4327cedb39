// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// takingPrefix begins the names of the folders of pins of the programs that take packets to a pair,
// by the index of its first end: takes-7/12 is the program at device 12.
const takingPrefix = "takes-"

// taking is the hook at ports where a pair stands for the ingress of a link, with Options.Inward.
func taking(first int) hook {
	return hook{ebpf.AttachTCXEgress, device.ClsactEgress, takingPrefix + strconv.Itoa(first), classifyProgWeirRulesTake, 0}
}

// diverting is the hook at a link where a pair stands for a zone of it.
func diverting(first int) hook {
	h := taking(first)
	h.program = classifyProgWeirRulesArea
	return h
}

// pairs is a Marker at IFBs and pairs.
type pairs struct{ *Marker }

// second returns the index of the second end of a pair, 0 if there is an IFB.
func (m pairs) second() int {
	if m.opts.Inward != nil {
		return m.opts.Inward.Back
	}
	return m.opts.Back
}

// attach refuses what sockets send to an IFB, or to a pair, and sends on what comes out of a pair.
func (m pairs) attach(dev device.Device) error {
	if m.second() == 0 {
		return m.Marker.attach(guard, dev.Index, dev.Name, 0, Marking{}, func(*program) {})
	}
	return errors.Join(
		m.Marker.attach(back, m.second(), "the second end of "+dev.Name, 0, Marking{}, func(*program) {}),
		m.Marker.attach(gate, dev.Index, dev.Name, 0, Marking{}, func(*program) {}),
	)
}

// ready attaches them before the first port sends packets there: without the second end's program
// they would be lost.
func (m pairs) ready() error {
	if m.paired || m.opts.Inward == nil || m.second() == 0 {
		return nil
	}
	dev, err := m.conn.LookupIndex(m.opts.Inward.IFB)
	if err == nil {
		err = m.attach(dev)
	}
	m.paired = err == nil
	return err
}

// missing says whether a pair is without the program that sends on what comes out of it.
func (m pairs) missing() ([]string, error) {
	if m.second() == 0 {
		return nil, nil
	}
	_, err := m.at(back).read(m.second())
	switch {
	case errors.Is(err, errNotOurs):
		return []string{"the program behind the qdisc is gone"}, nil
	case errors.As(err, new(preceded)):
		return []string{fmt.Sprintf("behind the qdisc: %v", err)}, nil
	}
	return nil, err
}

// prune takes the programs off that carry packets to a pair that is gone, where the kernel
// drops them.
func (m pairs) prune() error {
	top, err := m.conn.PinDir(m.opts, "")
	if err != nil || !m.tcx {
		return err
	}
	if _, err := m.at(back).list(); err != nil { // removes the pins of pairs that are gone
		return err
	}
	folders, err := filepath.Glob(filepath.Join(top, takingPrefix+"*"))
	for _, dir := range folders {
		first, bad := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), takingPrefix))
		if _, gone := m.conn.LookupIndex(first); bad != nil || !errors.Is(gone, dataplane.ErrNoDevice) {
			continue
		}
		err = errors.Join(err, detachAll(tcx{m.Marker, taking(first)}), os.Remove(dir))
	}
	return err
}
