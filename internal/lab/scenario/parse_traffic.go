// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
)

// header is what IPv4, UDP (or ICMP) and Ethernet add to a payload.
const header = 14 + 20 + 8

const trafficForm = `a list such as [{tcp: {streams: 4}}, {ping: {}}]`

func (r *reader) weight(n ast.Node, path string) *uint32 {
	v := 0
	r.count(&v, 1, policy.MaxWeight, "a weight")(n, path)
	w := uint32(v)
	return &w
}

// bound is a min or a max; "none" takes it away.
func (r *reader) bound(n ast.Node, path string, s *Scenario) *policy.Rate {
	var v policy.Rate
	r.rate(&v, s.Link.Bandwidth)(n, path)
	return &v
}

func (r *reader) trafficList(n ast.Node, path string, s *Scenario) []Traffic {
	var list []Traffic
	for i, item := range r.items(n, path, trafficForm) {
		here := index(path, i)
		entries, ok := r.entries(item, here, "one kind of traffic, such as {tcp: {}}")
		if !ok {
			continue
		}
		if len(entries) != 1 {
			r.fail(item, here, "", "needs exactly one kind of traffic; write - {tcp: {}} and - {ping: {}} as two entries")
			continue
		}
		kind := keyText(entries[0].Key)
		read, ok := trafficKinds[Kind(kind)]
		if !ok {
			r.unknown(entries[0].Key, here, "traffic", kind, names(trafficKinds))
			continue
		}
		t := read.defaults
		t.Kind = Kind(kind)
		r.traffic(entries[0].Value, join(here, kind), &t, append(slices.Clone(allKinds), read.keys...), s)
		r.nameEntry(item, here, &t, list)
		list = append(list, t)
	}
	return list
}

// nameEntry gives an entry the name that it has not got: its kind, with its port
// if it has one, and a number if there is one of that name already.
func (r *reader) nameEntry(n ast.Node, path string, t *Traffic, before []Traffic) {
	taken := func(name string) bool {
		return slices.ContainsFunc(before, func(o Traffic) bool { return o.Name == name })
	}
	if t.Name != "" {
		if taken(t.Name) {
			r.fail(n, path, t.Name, "two entries of this name; give each a name of its own")
		}
		return
	}
	name := string(t.Kind)
	if t.Port != 0 {
		name += ":" + strconv.Itoa(t.Port)
	}
	t.Name = name
	for i := 2; taken(t.Name); i++ {
		t.Name = fmt.Sprintf("%s#%d", name, i)
	}
}

// trafficKind is what one kind of traffic can be told.
type trafficKind struct {
	defaults Traffic
	keys     []string
}

var trafficKinds = map[Kind]trafficKind{
	TCP:    {Traffic{Streams: 1}, []string{"streams", "port", "size"}},
	UDP:    {Traffic{Streams: 1, Size: DefaultUDPSize}, []string{"rate", "size", "streams", "port"}},
	Ping:   {Traffic{Size: DefaultPingSize, Interval: DefaultPing}, []string{"interval", "size"}},
	TCPRR:  {Traffic{Size: DefaultRRSize}, []string{"size", "answer", "port"}},
	UDPRR:  {Traffic{Size: DefaultRRSize}, []string{"size", "answer", "port"}},
	TCPCRR: {Traffic{Size: DefaultRRSize}, []string{"size", "answer", "port"}},
}

// allKinds are the keys that every kind of traffic has.
var allKinds = []string{"name", "start", "stop", "dscp", "host"}

func (r *reader) traffic(n ast.Node, path string, t *Traffic, keys []string, s *Scenario) {
	if _, ok := n.(*ast.NullNode); !ok {
		all := map[string]field{
			"name":     r.str(&t.Name, "a name"),
			"dscp":     r.dscp(&t.DSCP),
			"streams":  r.count(&t.Streams, 1, 128, "a number of streams"),
			"port":     r.count(&t.Port, 1, 65535, "a port"),
			"host":     r.count(&t.Host, 1, 8, "a host of the receiver"),
			"size":     r.count(&t.Size, 1, maxSize(t.Kind, s.Link.MTU), "a size in bytes"),
			"answer":   r.count(&t.Answer, 1, maxSize(t.Kind, s.Link.MTU), "a size in bytes"),
			"start":    r.duration(&t.Start, 0),
			"stop":     r.duration(&t.Stop, 0),
			"rate":     r.positiveRate(&t.Rate, s.Link.Bandwidth),
			"interval": r.duration(&t.Interval, 2*time.Millisecond),
		}
		known := map[string]field{}
		for _, k := range keys {
			known[k] = all[k]
		}
		before := len(r.problems)
		r.fields(n, path, "a mapping such as {}", known)
		if len(r.problems) > before {
			return
		}
	}
	if t.Kind == UDP && t.Rate == 0 {
		r.fail(n, join(path, "rate"), "", "missing; write rate: 10mbit")
	}
	if t.Stop != 0 && t.Stop <= t.Start {
		r.fail(n, join(path, "stop"), t.Stop.String(), "must come after start (%v)", t.Start)
	}
}

// dscp reads a code point.
func (r *reader) dscp(dst *uint8) field {
	return func(n ast.Node, path string) {
		s, ok := r.scalar(n, path, "a code point such as ef or 34")
		if !ok {
			return
		}
		v, err := classify.ParseDSCP(s)
		if err != nil {
			r.refuse(n, path, err)
		}
		*dst = v
	}
}

// maxSize keeps datagrams whole: a fragment has no ports, and counts its
// headers differently.
func maxSize(k Kind, mtu int) int {
	switch k {
	case UDP, Ping, UDPRR:
		return mtu - 28
	}
	return 1 << 20
}
