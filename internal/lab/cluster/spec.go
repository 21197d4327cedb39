// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"weir/internal/base/strictyaml"
	"weir/internal/cluster/migrate"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Spec is a scenario file.
type Spec struct {
	File       string               `yaml:"-"`
	Name       string               `yaml:"name"`
	Nodes      []string             `yaml:"nodes"`
	Machines   string               `yaml:"machines"`   // what a node is: MachinesNamespace, MachinesVM or MachinesUnits
	MemoryMiB  int                  `yaml:"memory_mib"` // of each virtual machine; 0 = 2048
	Bandwidth  string               `yaml:"bandwidth"`  // of each node's cable, as tc writes it; "" = as fast as it goes
	DiskMiB    int                  `yaml:"disk_mib"`   // of each node, in memory; 0 = this machine's disk
	Images     map[string]Image     `yaml:"images"`
	Containers map[string]Container `yaml:"containers"`
	Agents     *Agents              `yaml:"agents"` // nil = no agent runs, and the lab migrates by itself
	Timeline   []TimelineStep       `yaml:"timeline"`
	Expect     []Expectation        `yaml:"expect"`

	entries []strictyaml.Entry // Expect as the file has it
}

// What a node can be.
const (
	MachinesNamespace = "namespace"
	MachinesVM        = "vm"
	MachinesUnits     = "units" // a virtual machine in which systemd runs engine and agent
)

// virtual says whether nodes are virtual machines.
func (s Spec) virtual() bool { return s.Machines == MachinesVM || s.Machines == MachinesUnits }

// Image is one that the lab makes.
type Image struct {
	// Programs of this machine that are in it, e.g. [stress-ng]; without, the counter.
	Programs []string `yaml:"programs"`
	Ballast  int      `yaml:"ballast"` // MiB of random data beside the counter
	// Root is a tar archive of a file system that the counter is put into, by a path
	// relative to the file.
	Root string `yaml:"root"`
}

// Agents has Weir itself run: a manager, and on each node an agent that steers its
// cable.
type Agents struct {
	Egress    string         `yaml:"egress"`    // what each cable can send, as weir.yaml has it
	Backend   string         `yaml:"backend"`   // "" = auto
	Workloads map[string]any `yaml:"workloads"` // as in weir.yaml, on each node
}

func (a Agents) backend() string { return cmp.Or(a.Backend, plan.BackendAuto) }

// Container is one that runs from the beginning.
type Container struct {
	Node    string            `yaml:"node"`
	Image   string            `yaml:"image"`   // one of Images; "" = the counter alone
	Memory  int               `yaml:"memory"`  // MiB that the counter fills
	Files   int               `yaml:"files"`   // MiB that the counter writes
	Send    string            `yaml:"send"`    // rate at which the counter sends to the switch by UDP
	Command []string          `yaml:"command"` // of an image with programs
	Labels  map[string]string `yaml:"labels"`
	Volumes []string          `yaml:"volumes"` // NAME:PATH
	Start   string            `yaml:"start"`   // "later" = by a step of the timeline
}

// TimelineStep is one entry of the timeline. Exactly one of the verbs is given. Steps follow
// each other; At waits until that long after the start, and Background lets the next
// step begin at once.
type TimelineStep struct {
	At         time.Duration `yaml:"at"`
	Background bool          `yaml:"background"`

	Start       string        `yaml:"start"`       // a container
	Remove      string        `yaml:"remove"`      // a container
	Migrate     string        `yaml:"migrate"`     // a container
	Checkpoint  string        `yaml:"checkpoint"`  // a container: freeze it, measure, bring it back
	Cut         string        `yaml:"cut"`         // a node's cable
	Join        string        `yaml:"join"`        // a node's cable
	KillEngine  string        `yaml:"kill_engine"` // a node's dockerd
	StartEngine string        `yaml:"start_engine"`
	KillNode    string        `yaml:"kill_node"`  // a machine, as a power cut does
	StartNode   string        `yaml:"start_node"` // it comes back with nothing of what it had
	FillDisk    string        `yaml:"fill_disk"`
	FreeDisk    string        `yaml:"free_disk"`
	BreakCRIU   string        `yaml:"break_criu"`
	MendCRIU    string        `yaml:"mend_criu"`
	Registry    string        `yaml:"registry"` // "stop" or "start"
	Wait        time.Duration `yaml:"wait"`
	Say         string        `yaml:"say"`     // text for who watches
	Measure     time.Duration `yaml:"measure"` // what arrives of what the containers send

	// With agents.
	Weir       string `yaml:"weir"`        // a command line of weir's, without the first word
	Await      string `yaml:"await"`       // a container: until it runs on On, and Min is held there
	KillAgent  string `yaml:"kill_agent"`  // a node's
	StartAgent string `yaml:"start_agent"` // a node's
	Manager    string `yaml:"manager"`     // "kill" or "start"
	Journal    string `yaml:"journal"`     // a container: the journal of its last move

	To       string           `yaml:"to"`
	Approach migrate.Approach `yaml:"approach"`
	Label    string           `yaml:"label"`  // for reports
	On       string           `yaml:"on"`     // weir: whose agent is asked; await: where
	Exit     int              `yaml:"exit"`   // weir: with what status it has to end
	Min      string           `yaml:"min"`    // await
	Within   time.Duration    `yaml:"within"` // await; 0 = a minute
	During   *During          `yaml:"during"` // the step comes when a container's move is so far
}

// During is a moment of a move.
type During struct {
	Move string `yaml:"move"` // the container
	Step string `yaml:"step"`
}

// Expectation is checked at the end.
type Expectation struct {
	Container string        `yaml:"container"`
	On        string        `yaml:"on"`       // it runs there and nowhere else
	Exact     bool          `yaml:"exact"`    // the counter has not lost or repeated anything
	Downtime  time.Duration `yaml:"downtime"` // of each of its migrations at most, as it has seen it itself
	Label     string        `yaml:"label"`    // of migrations, of each of which Downtime is then, as Weir reports it
	S         *float64      `yaml:"s"`        // of the cluster at most, as weir plan finds it
	Measure   string        `yaml:"measure"`  // label of a measurement, of which AtLeast and AtMost are about
	AtLeast   string        `yaml:"at_least"` // rate
	AtMost    string        `yaml:"at_most"`  // rate
}

var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)

// Load reads and checks a file. The error has a line for each thing that is wrong.
func Load(file string) (Spec, error) { return LoadFor(file, "") }

// LoadFor is Load for machines of another kind than the file says; "" = as it says.
func LoadFor(file, machines string) (Spec, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Spec{}, err
	}
	return parse(file, text, machines)
}

// Parse checks the text of a file; its name is for messages.
func Parse(file string, text []byte) (Spec, error) { return parse(file, text, "") }

func parse(file string, text []byte, machines string) (Spec, error) {
	var s Spec
	s.File = file
	if err := strictyaml.Read(file, text, &s); err != nil {
		return s, err
	}
	s.entries = strictyaml.Entries(text, "expect")
	s.Machines = cmp.Or(machines, s.Machines, MachinesNamespace)
	if problems := s.check(); len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, p := range problems {
			errs[i] = fmt.Errorf("%s: %s", file, p)
		}
		return s, errors.Join(errs...)
	}
	return s, nil
}

func (s *Spec) check() (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(s.Nodes) == 0 {
		wrong("nodes: missing; write nodes: [a, b]")
	}
	if len(s.Nodes) > 20 {
		wrong("nodes: %d are more than 20", len(s.Nodes))
	}
	for _, n := range s.Nodes {
		if !namePattern.MatchString(n) {
			wrong("nodes: %q: write small letters, digits and -", n)
		}
	}
	node := func(where, name string) {
		if name != "" && !slices.Contains(s.Nodes, name) {
			wrong("%s: node %q is not in nodes: %v", where, name, s.Nodes)
		}
	}
	rate := func(where, text string) {
		if text == "" {
			return
		}
		if _, err := policy.ParseRate(text); err != nil {
			wrong("%s: %v", where, err)
		}
	}
	switch {
	case s.Machines != MachinesNamespace && !s.virtual():
		wrong("machines: %q; write namespace, vm or units", s.Machines)
	case s.virtual() && s.Agents == nil:
		wrong("machines: vm needs agents; write agents: {egress: 100mbit}")
	}
	if a := s.Agents; a != nil {
		if a.Egress == "" {
			wrong("agents.egress: missing; write such as 100mbit")
		}
		rate("agents.egress", a.Egress)
	}
	for name, c := range s.Containers {
		where := "containers." + name
		if len(name) < 2 || !namePattern.MatchString(name) {
			wrong("%s: write two or more small letters, digits and -", where)
		}
		if c.Node == "" {
			wrong("%s.node: missing", where)
		}
		node(where+".node", c.Node)
		if _, ok := s.Images[c.Image]; c.Image != "" && !ok {
			wrong("%s.image: %q is not in images", where, c.Image)
		}
		if c.Send != "" && len(c.Command) > 0 {
			wrong("%s.send: only the counter sends; leave command out", where)
		}
		rate(where+".send", c.Send)
		if c.Start != "" && c.Start != "later" {
			wrong("%s.start: %q; write later, or leave it out", where, c.Start)
		}
	}
	container := func(where, name string) {
		if _, ok := s.Containers[name]; name != "" && !ok {
			wrong("%s: container %q is not in containers", where, name)
		}
	}
	for i, st := range s.Timeline {
		where := fmt.Sprintf("timeline[%d]", i+1)
		for _, name := range []string{st.Start, st.Remove, st.Migrate, st.Checkpoint, st.Await, st.Journal} {
			container(where, name)
		}
		if st.During != nil {
			container(where+".during.move", st.During.Move)
			if st.During.Move == "" || st.During.Step == "" {
				wrong("%s.during: write during: {move: CONTAINER, step: freeze}", where)
			}
		}
		for _, name := range []string{st.Cut, st.Join, st.KillEngine, st.StartEngine, st.KillNode, st.StartNode, st.FillDisk, st.FreeDisk, st.BreakCRIU, st.MendCRIU, st.To, st.KillAgent, st.StartAgent, st.On} {
			node(where, name)
		}
		if verbs := st.verbs(); len(verbs) != 1 {
			wrong("%s: has %d verbs %v; give one of migrate, checkpoint, start, remove, cut, join, kill_engine, start_engine, fill_disk, free_disk, break_criu, mend_criu, registry, wait, say, measure, weir, await, kill_agent, start_agent, kill_node, start_node, manager, journal", where, len(verbs), verbs)
		}
		if (st.Migrate != "") != (st.To != "") {
			wrong("%s: migrate and to belong together", where)
		}
		if st.Approach != "" && !slices.Contains(migrate.Approaches, st.Approach) {
			wrong("%s.approach: %q; write layer, commit or export", where, st.Approach)
		}
		if own := st.Weir + st.Await + st.KillAgent + st.StartAgent + st.Manager + st.Journal; (own != "" || st.During != nil) && s.Agents == nil {
			wrong("%s: needs agents; write agents: {egress: 100mbit}", where)
		}
		if st.KillNode+st.StartNode != "" && !s.virtual() {
			wrong("%s: only a machine can be switched off; write machines: vm", where)
		}
		if (st.Checkpoint != "" || st.Registry != "") && s.Agents != nil {
			wrong("%s: checkpoint and registry are the lab's own; leave agents out", where)
		}
		if st.Manager != "" && st.Manager != "kill" && st.Manager != "start" {
			wrong("%s.manager: %q; write kill or start", where, st.Manager)
		}
		if st.Await != "" && st.On == "" {
			wrong("%s.on: missing; say on which node %s is awaited", where, st.Await)
		}
		rate(where+".min", st.Min)
		if st.Registry != "" && st.Registry != "stop" && st.Registry != "start" {
			wrong("%s.registry: %q; write stop or start", where, st.Registry)
		}
	}
	for i, e := range s.Expect {
		where := fmt.Sprintf("expect[%d]", i+1)
		container(where, e.Container)
		node(where+".on", e.On)
		switch migrates := func(st TimelineStep) bool { return st.Migrate != "" && st.Label == e.Label }; {
		case e.Label != "" && (e.Downtime <= 0 || e.Container+e.On+e.Measure != "" || e.Exact):
			wrong("%s.label: goes with downtime alone; write {label: %s, downtime: 1.5s}", where, e.Label)
		case e.Label != "" && !slices.ContainsFunc(s.Timeline, migrates):
			wrong("%s.label: no migration has the label %q", where, e.Label)
		case e.S != nil && (*e.S < 0 || s.Agents == nil):
			wrong("%s.s: needs a number from 0 up, and agents, which measure it", where)
		case e.Container == "" && e.Label == "" && e.S == nil:
			wrong("%s.container: missing", where)
		}
		rate(where+".at_least", e.AtLeast)
		rate(where+".at_most", e.AtMost)
		if (e.AtLeast != "" || e.AtMost != "") != (e.Measure != "") {
			wrong("%s: measure belongs together with at_least or at_most", where)
		}
		if e.Measure != "" && !slices.ContainsFunc(s.Timeline, func(st TimelineStep) bool { return st.Measure > 0 && st.Label == e.Measure }) {
			wrong("%s.measure: no measurement has the label %q", where, e.Measure)
		}
	}
	return problems
}

// verbs returns the verbs that a step has.
func (st TimelineStep) verbs() (list []string) {
	for _, v := range []struct{ verb, value string }{
		{"start", st.Start}, {"remove", st.Remove}, {"migrate", st.Migrate}, {"checkpoint", st.Checkpoint}, {"cut", st.Cut}, {"join", st.Join},
		{"kill_engine", st.KillEngine}, {"start_engine", st.StartEngine}, {"fill_disk", st.FillDisk}, {"free_disk", st.FreeDisk},
		{"break_criu", st.BreakCRIU}, {"mend_criu", st.MendCRIU}, {"registry", st.Registry},
		{"say", st.Say}, {"weir", st.Weir}, {"await", st.Await}, {"kill_agent", st.KillAgent}, {"start_agent", st.StartAgent},
		{"kill_node", st.KillNode}, {"start_node", st.StartNode}, {"manager", st.Manager}, {"journal", st.Journal},
	} {
		if v.value != "" {
			list = append(list, v.verb)
		}
	}
	if st.Wait > 0 {
		list = append(list, "wait")
	}
	if st.Measure > 0 {
		list = append(list, "measure")
	}
	return list
}
