// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"weir/internal/base/tlsfile"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/yamltree"
)

// DefaultOVSDB is the address where Open vSwitch's database listens by default.
const DefaultOVSDB = "unix:/run/openvswitch/db.sock"

// Switch is a checked file for weir sdn: the queues of one bridge's ports, and
// the flows that go into them.
type Switch struct {
	Path     string // where it was read from
	Bridge   string
	OVSDB    string        // address of the database
	OpenFlow string        // address of the bridge
	TLS      tlsfile.Files // for addresses ssl:HOST:PORT
	Ports    []SwitchPort
	Flows    []SwitchFlow // the first that a packet fits counts
}

// SwitchPort is one port of a bridge.
type SwitchPort struct {
	Name      string
	Bandwidth policy.Rate // what the port can send
	// Policy has the discipline, and the queues, each with the number that the
	// switch's set_queue gives its packets as its match.
	Policy policy.Policy
}

// SwitchFlow puts packets into a queue.
type SwitchFlow struct {
	InPort, EthSrc, EthDst string // "" = any
	Match                  classify.Match
	Port                   string // "" = whichever has a queue of this name
	Queue                  string
	Forward                bool // send it out of Port too, instead of where the switch's other flows send it
}

// QueueNumber returns the number that set_queue gives a queue: the same for queues of one
// name on all ports, in the order in which the names stand in the file.
func (s Switch) QueueNumber(name string) (number uint16, ok bool) {
	var names []string
	for _, port := range s.Ports {
		for _, q := range port.Policy.Queues {
			if q.Name == name {
				ok = true
			}
			if !slices.Contains(names, q.Name) {
				names = append(names, q.Name)
			}
		}
	}
	return uint16(max(0, slices.Index(names, name))), ok
}

// Port returns the port with a name.
func (s Switch) Port(name string) (SwitchPort, bool) {
	i := slices.IndexFunc(s.Ports, func(p SwitchPort) bool { return p.Name == name })
	if i < 0 {
		return SwitchPort{}, false
	}
	return s.Ports[i], true
}

// LoadSwitch reads and checks a file. Its error is an *Error where the file could
// be read but is wrong.
func LoadSwitch(file string) (Switch, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Switch{}, &FileError{"switch file " + file + " does not exist; write one as docs/sdn.md shows", err}
	}
	if err != nil {
		return Switch{}, &FileError{"switch file: " + err.Error(), err}
	}
	return ParseSwitch(file, text)
}

// ParseSwitch checks the text of a file; path is for messages.
func ParseSwitch(file string, text []byte) (Switch, error) {
	s := Switch{Path: file, OVSDB: DefaultOVSDB}
	root, err := parseTree(bytes.TrimPrefix(text, []byte("\ufeff")))
	if err != nil {
		return Switch{}, fmt.Errorf("%s: %w", file, err)
	}
	if len(root.tree.problems) == 0 {
		s.read(root)
	}
	if problems := root.tree.problems; len(problems) > 0 {
		sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
		return Switch{}, &Error{Path: file, Problems: problems}
	}
	s.OpenFlow = cmp.Or(s.OpenFlow, BridgeAddress(s.OVSDB, s.Bridge))
	return s, nil
}

// BridgeAddress returns the address where a bridge listens for OpenFlow, beside its
// database; "" where the database is on another machine.
func BridgeAddress(database, bridge string) string {
	if path, ok := strings.CutPrefix(database, "unix:"); ok {
		return "unix:" + path[:strings.LastIndexByte(path, '/')+1] + bridge + ".mgmt"
	}
	return ""
}

func (s *Switch) read(root node) {
	portsRead := false
	root.fields([]string{"bridge", "ovsdb", "openflow", "tls", "ports", "flows"}, func(key string, value node) {
		switch key {
		case "bridge":
			if readText(value, &s.Bridge); s.Bridge == "" || strings.ContainsAny(s.Bridge, "/: \t\n") {
				root.wrong("bridge is missing; name one that ovs-vsctl list-br shows")
			}
		case "ovsdb":
			readAddress(value, &s.OVSDB)
		case "openflow":
			readAddress(value, &s.OpenFlow)
			if s.OpenFlow == "" && !strings.HasPrefix(s.OVSDB, "unix:") {
				value.wrong("openflow is missing; the bridge is on another machine: give ssl:HOST:PORT (there: ovs-vsctl set-controller %s pssl:6653)",
					cmp.Or(s.Bridge, "BRIDGE"))
			}
		case "tls":
			readSwitchTLS(value, &s.TLS)
		case "ports":
			before := len(root.tree.problems)
			s.readPorts(value)
			portsRead = len(root.tree.problems) == before
		case "flows":
			s.readFlows(value, portsRead)
		}
	})
	root.refuse(CheckSwitchTLS(s.TLS, s.OVSDB, s.OpenFlow))
}

func readAddress(value node, into *string) {
	text, ok := value.text()
	if !ok {
		return
	}
	if err := CheckSwitchAddress(text); err != nil {
		value.wrong("%v", err)
		return
	}
	*into = text
}

// CheckSwitchAddress refuses a text that is no address of a database or a bridge.
func CheckSwitchAddress(address string) error {
	kind, where, _ := strings.Cut(address, ":")
	if kind == "unix" && strings.HasPrefix(where, "/") {
		return nil
	}
	if kind == "tcp" || kind == "ssl" {
		if host, port, err := net.SplitHostPort(where); err == nil && host != "" && port != "" {
			return nil
		}
	}
	return &invalid.Error{Value: address, Msg: "no address of a switch", Remedy: "write unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT"}
}

// readSwitchTLS reads what ovs-vsctl is told by -C, -c and -p.
func readSwitchTLS(fields node, into *tlsfile.Files) {
	fields.fields([]string{"ca", "cert", "key", "server_name"}, func(key string, value node) {
		switch key {
		case "ca":
			readPath(value, &into.CA)
		case "cert":
			readPath(value, &into.Cert)
		case "key":
			readPath(value, &into.Key)
		case "server_name":
			readText(value, &into.ServerName)
		}
	})
}

// CheckSwitchTLS refuses an address ssl without the three files that a switch and its
// client know one another by, and files without such an address.
func CheckSwitchTLS(files tlsfile.Files, addresses ...string) error {
	address := ""
	for _, a := range addresses {
		if strings.HasPrefix(a, "ssl:") {
			address = a
		}
	}
	switch {
	case address == "" && files.Given():
		return &invalid.Error{Field: "tls", Msg: "is given, but no address is ssl:HOST:PORT", Remedy: "write the addresses so, or leave tls out"}
	case address != "" && (files.CA == "" || files.Cert == "" || files.Key == ""):
		return &invalid.Error{Value: address, Msg: "needs a certificate, its key, and the authority of the switch's certificate", Remedy: "give tls: {ca: FILE, cert: FILE, key: FILE}, or --ca-cert, --certificate and --private-key"}
	}
	return nil
}

func (s *Switch) readPorts(ports node) {
	ports.each(func(name string, _ *token.Token, value node) {
		before := len(value.tree.problems)
		port := SwitchPort{Name: name, Policy: policy.Default()}
		value.fields([]string{"bandwidth", "discipline", "queues", "aqm"}, func(key string, field node) {
			switch key {
			case "bandwidth":
				if !field.given() {
					value.wrong("bandwidth is missing; say what the port can send, e.g. bandwidth: 8mbit")
				} else if text, ok := field.text(); ok {
					rate, err := policy.ParseRate(text)
					field.refuse(err)
					port.Bandwidth = rate
				}
			case "discipline":
				if text, ok := field.text(); ok {
					d, err := discipline.Parse(text)
					field.refuse(err)
					port.Policy.Discipline = d
				}
			case "queues":
				port.Policy.Queues = readSwitchQueues(field)
			case "aqm":
				if _, fields := field.ast.(*ast.MappingNode); fields {
					port.Policy.AQM = readAQM(field)
				} else if text, ok := field.text(); ok {
					aqm, err := discipline.ParseAQM(text)
					field.refuse(err)
					port.Policy.AQM = aqm
				}
			}
		})
		s.Ports = append(s.Ports, port)
		if len(value.tree.problems) > before {
			return
		}
		for i, q := range port.Policy.Queues {
			n, _ := s.QueueNumber(q.Name)
			port.Policy.Queues[i].Match = []classify.Match{{Queue: classify.Given(n)}}
		}
		_, err := port.Policy.Sharer(port.Bandwidth)
		value.refuse(err)
	})
}

// readSwitchQueues reads queues as weir.yaml has them, but without matches: the flows
// have those.
func readSwitchQueues(queues node) []policy.Queue {
	list := readQueues(queues)
	for _, q := range list {
		if len(q.Match) > 0 {
			queues.wrong("queue %q has a match; on a switch the flows say what belongs there: {match: ..., queue: %s}", q.Name, q.Name)
		}
	}
	return list
}

// switchMatchFields are the keys of a flow's match that policy does not know.
var switchMatchFields = []string{"in_port", "dl_src", "dl_dst"}

// readFlows holds the flows against the ports, if those could be read.
func (s *Switch) readFlows(flows node, ports bool) {
	flows.items(func(item node) {
		before := len(item.tree.problems)
		var f SwitchFlow
		item.fields([]string{"match", "port", "queue", "forward"}, func(key string, value node) {
			switch key {
			case "match":
				f.readMatch(item, value)
			case "port":
				readText(value, &f.Port)
			case "queue":
				if readText(value, &f.Queue); f.Queue == "" {
					item.wrong("queue is missing; name a queue of one of the ports")
				}
			case "forward":
				readBool(value, &f.Forward)
			}
		})
		s.Flows = append(s.Flows, f)
		if ports && len(item.tree.problems) == before {
			item.refuse(s.checkFlow(f))
		}
	})
}

func (f *SwitchFlow) readMatch(item, match node) {
	before := len(match.tree.problems)
	rest := map[string]any{}
	match.each(func(key string, _ *token.Token, value node) {
		if !slices.Contains(switchMatchFields, key) {
			rest[key] = yamltree.AsMaps(value.plain())
			return
		}
		switch key {
		case "in_port":
			readText(value, &f.InPort)
		case "dl_src":
			readMAC(value, &f.EthSrc)
		case "dl_dst":
			readMAC(value, &f.EthDst)
		}
	})
	if len(match.tree.problems) > before {
		return
	}
	if len(rest) == 0 {
		if f.InPort+f.EthSrc+f.EthDst == "" {
			item.wrong("match is empty; name the packets that belong into the queue, such as {udp: 5001}, {preset: voip} or {in_port: up0}")
		}
		return
	}
	m, err := classify.ParseMatch(rest)
	if err != nil {
		match.refuse(err)
		return
	}
	if m.Priority.Given || m.Mark.Given || m.Queue.Given {
		match.wrong("priority, mark and queue are set by the switch, and packets come without them; leave them out")
	}
	f.Match = m
}

func readMAC(value node, into *string) {
	text, ok := value.text()
	if !ok {
		return
	}
	if mac, err := net.ParseMAC(text); err != nil || len(mac) != 6 {
		value.wrong("%q is no Ethernet address; write it as 02:00:00:00:00:01", text)
		return
	}
	*into = strings.ToLower(text)
}

// checkFlow holds a flow against the ports.
func (s *Switch) checkFlow(f SwitchFlow) error {
	fail := func(field, value, msg, remedy string) error {
		return &invalid.Error{Field: field, Value: value, Msg: msg, Remedy: remedy}
	}
	names := func(ports []SwitchPort) string {
		var queues []string
		for _, p := range ports {
			for _, q := range p.Policy.Queues {
				if !slices.Contains(queues, q.Name) {
					queues = append(queues, q.Name)
				}
			}
		}
		if len(queues) == 0 {
			return "give it a discipline with queues, such as cbwfq"
		}
		return "its queues are " + strings.Join(queues, ", ")
	}
	ports := s.Ports
	if f.Port != "" {
		p, ok := s.Port(f.Port)
		if !ok {
			return fail("port", f.Port, "is not under ports", "give it a bandwidth and queues there")
		}
		ports = []SwitchPort{p}
	}
	if !slices.ContainsFunc(ports, func(p SwitchPort) bool {
		return slices.ContainsFunc(p.Policy.Queues, func(q policy.Queue) bool { return q.Name == f.Queue })
	}) {
		return fail("queue", f.Queue, "the port has no such queue", names(ports))
	}
	switch {
	case f.Forward && f.Port == "":
		return fail("forward", "true", "forward sends packets out of a port, and none is named", "name it by port")
	case f.Forward && f.InPort == "":
		return fail("forward", "true", "packets that come in by the port itself would be lost", "say by in_port where they come from")
	case f.Forward && f.InPort == f.Port:
		return fail("in_port", f.InPort, "a packet does not leave by the port that it came in by", "name another in_port")
	}
	return nil
}
