// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"fmt"
	"slices"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
)

// Missing names the parts of the last Set that another program removed or changed.
func (b *Backend) Missing() ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fresh {
		return nil, nil // nothing was set by this process
	}
	dev, err := b.conn.Lookup(b.name)
	if err != nil {
		return nil, err
	}
	root, err := b.conn.Root(dev)
	if err != nil {
		return nil, err
	}
	if !ours(root) {
		return []string{"the root qdisc is " + root.Kind}, nil
	}
	missing := b.disturbed
	b.disturbed = nil // said now
	have, err := listClasses(b.conn, dev.Index)
	if err != nil {
		return nil, device.Explain("read the classes of "+b.name, err)
	}
	missing = append(missing, b.foreign(dev, have)...)
	leaves, err := b.lostLeaves(dev)
	if err != nil {
		return nil, err
	}
	missing = append(missing, leaves...)
	present, err := hasClassifier(b.conn, dev.Index, b.opts.Carrier())
	if err != nil {
		return nil, err
	}
	if !present {
		missing = append(missing, "the classifier at the root is gone")
	}
	unmarked, err := b.marker.Missing(b.want)
	if err != nil {
		return nil, err
	}
	atLink, err := b.marker.MissingAtLink(dev, b.want, false)
	return slices.Concat(missing, unmarked, atLink), err
}

// foreign are the classes that do not have what they were told last. Rates are
// computed anew all the time, so the next step would mend them without a word.
func (b *Backend) foreign(dev device.Device, have map[uint32]htbClass) []string {
	var list []string
	for _, class := range workloads(b.want) {
		known := b.classes[class.ID]
		if known == nil || known.told == (settings{}) {
			continue
		}
		present, ok := have[classMinor(class.ID)]
		switch {
		case !ok:
			list = append(list, fmt.Sprintf("class %d (%s) is gone", class.ID, class.Name))
			known.seen = false // its counters begin at 0
		case present.settings != known.told:
			list = append(list, fmt.Sprintf("class %d (%s) was changed", class.ID, class.Name))
		}
	}
	if link := have[linkMinor].settings; link != b.linkSettings(dev) {
		list = append(list, "the class of the link was changed")
	}
	return list
}

// lostLeaves are the queues of classes that are not of the kind that they were.
func (b *Backend) lostLeaves(dev device.Device) ([]string, error) {
	leaves, err := listLeaves(b.conn, dev.Index)
	if err != nil {
		return nil, device.Explain("read the leaf qdiscs of "+b.name, err)
	}
	var lost []string
	for _, class := range workloads(b.want) {
		if _, packets, _ := b.leafOf(leaves, class); packets != 0 {
			lost = append(lost, fmt.Sprintf("the queue of class %d (%s) was changed", class.ID, class.Name))
		}
	}
	return lost, nil
}

// notice remembers foreign changes for Missing to report, before the rates are set anew.
func (b *Backend) notice(dev device.Device, have map[uint32]htbClass) {
	for _, what := range b.foreign(dev, have) {
		if !slices.Contains(b.disturbed, what) {
			b.disturbed = append(b.disturbed, what)
		}
	}
}

// leafOf is the kind of queue that a class has or should have, the limit that it is to be
// given, 0 if nothing is to be changed or can be, and its ce_threshold, 0 = as it is.
func (b *Backend) leafOf(leaves map[plan.ClassID]leaf, class plan.Class) (kind string, packets, ce uint32) {
	present := leaves[class.ID]
	kind = present.kind // another one would drop what waits, so an adopted class keeps its own
	if kind == "" {
		kind = b.leaf
	}
	packets = leafPackets(kind, b.want.Link.Capacity, class.Limit)
	if kind == "fq_codel" && (class.AQM.CEThreshold != 0 || present.ce != 0) && !sameThreshold(present.ce, ceThreshold(class)) {
		ce = ceThreshold(class)
	}
	if present.packets == packets && ce == 0 || (present.kind != "" && !changeable(present.kind)) {
		return kind, 0, 0
	}
	return kind, packets, ce
}

// sameThreshold reports whether two values of ce_threshold are one: the kernel rounds them
// to 1,024 ns, and shows none where there is no delay.
func sameThreshold(present, want uint32) bool {
	if want >= noCEThreshold/2 {
		return present == 0 || present >= noCEThreshold/2
	}
	return present == want || present+1 == want
}
