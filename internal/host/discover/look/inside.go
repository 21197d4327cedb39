// SPDX-License-Identifier: Apache-2.0

package look

import (
	"slices"

	"weir/internal/core/paths"
)

// seen is what was found in a workload's namespaces.
type seen struct {
	inside []paths.Interface
	past   string
	ends   map[int]end // by the host's device
	still  int         // looks for which past stays though nothing more got past
	quiet  bool        // nothing was received since the look before, if there was one
	// spaces are the numbers of the namespaces whose devices were listed; touched says that
	// some of them, or where the workload's devices lead to, have changed since.
	spaces  []int
	touched bool
}

// end is the inner end of a pair.
type end struct {
	nsid int    // the number of its namespace
	more int64  // packets that got in there beyond those that left by the host's device, at most
	got  uint64 // packets that it has received
}

// fresh reports whether a workload has to be looked into whatever it receives.
func (s seen) fresh() bool { return s.ends == nil || s.touched || s.past != "" }

// moved reports whether devices of a workload lead elsewhere than when it was looked into.
func (s seen) moved(h host, w paths.Workload) bool {
	return slices.ContainsFunc(w.Devices, func(index int) bool {
		_, nsid, away := h.pair(index)
		end, known := s.ends[index]
		return away != known || away && end.nsid != nsid
	})
}

const (
	// someMore is how many packets get past a port between two looks before that is said.
	someMore = 32
	// remembered is for how many looks it is said after that.
	remembered = 60
)

// still reports whether a workload that has received nothing still has not, at the price of one
// number for each of its devices.
func (k kernel) still(h host, before seen) bool {
	for index, former := range before.ends {
		device, nsid, _ := h.pair(index)
		if c, err := k.counts(device.Parent, nsid); err != nil || c.in != former.got {
			return false
		}
	}
	return true
}

// look looks into the namespaces that a workload's devices lead into. Told says that notice is
// given of what changes there.
func (k kernel) look(h host, w paths.Workload, before seen, told bool) (now seen) {
	if told && before.quiet && !before.fresh() && k.still(h, before) {
		return before
	}
	now = seen{past: before.past, still: before.still - 1, ends: map[int]end{}, quiet: true}
	if now.still <= 0 {
		now.past = ""
	}
	visited := map[int][]entry{}
	for _, index := range w.Devices {
		device, nsid, away := h.pair(index)
		if !away {
			continue
		}
		former, known := before.ends[index]
		inner, list, err := k.end(nsid, device, former, before.quiet)
		if err != nil {
			now.touched = true // it has just gone, or it is asked again
			continue
		}
		visited[nsid] = list
		if inner.past(former) && known {
			now.past, now.still = device.Name, remembered
		}
		inner.nsid = nsid
		now.ends[index] = inner.end
		now.quiet = now.quiet && (!known || inner.got == former.got)
	}
	for nsid, list := range visited {
		inside, beyond := k.interfaces(nsid, list)
		now.inside, now.spaces = append(now.inside, inside...), append(append(now.spaces, nsid), beyond...)
	}
	slices.SortFunc(now.inside, func(a, b paths.Interface) int { return a.Index - b.Index })
	return now
}

// measured is the inner end of a pair and at least how many packets got in there beyond those that
// left by the host's device.
type measured struct {
	end
	least int64
}

// past reports whether packets got in there by another way since the former look.
func (m measured) past(former end) bool { return m.least > former.more+someMore }

// end measures the inner end of a host's device, and lists what else is in the namespace. Of one
// that was quiet and still is, nothing else is asked.
func (k kernel) end(nsid int, device paths.Device, former end, quiet bool) (m measured, list []entry, err error) {
	received := func() uint64 {
		if i := slices.IndexFunc(list, func(e entry) bool { return e.Index == device.Parent }); i >= 0 {
			return list[i].in
		}
		return former.got
	}
	if quiet {
		if list, err = k.list(nsid); err != nil || received() == former.got {
			return measured{end: former, least: former.more}, list, err
		}
	}
	first, err := k.counts(device.Index, noNsid)
	if err == nil {
		list, err = k.list(nsid)
	}
	if err != nil {
		return m, nil, err
	}
	last, err := k.counts(device.Index, noNsid)
	m.got = received() // between the first and the last
	m.more, m.least = int64(m.got-first.out), int64(m.got-last.out)
	return m, list, err
}

// interfaces returns the devices of a namespace, but lo.
func (k kernel) interfaces(nsid int, list []entry) (inside []paths.Interface, beyond []int) {
	own, out := noNsid, map[int]bool{} // by the number of a namespace
	for _, e := range list {
		in := paths.Interface{Device: e.Device}
		if in.Index == loopback {
			continue
		}
		if in.Away {
			if own == noNsid {
				own = k.own()
			}
			to := e.nsid
			in.Host = to == own
			if !in.Host && (in.Kind == "veth" || in.Kind == "netkit") {
				leads, known := out[to]
				if !known { // many pairs may lead into the same one
					leads, beyond = k.leadsOut(to, nsid), append(beyond, to)
					out[to] = leads
				}
				in.Out = leads
			}
		}
		inside = append(inside, in)
	}
	return inside, beyond
}

const loopback = 1 // index of lo in every network namespace

// leadsOut reports whether a namespace has a way out other than into another one.
func (k kernel) leadsOut(nsid, but int) bool {
	list, err := k.list(nsid)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(e entry) bool {
		switch {
		case e.Index == loopback:
			return false
		case e.nsid != noNsid:
			return e.nsid != but
		}
		return e.Kind == "device" || e.Kind == "tuntap"
	})
}
