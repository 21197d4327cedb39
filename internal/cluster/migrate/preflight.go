// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/core/wire"
)

// Request describes the migration that the caller wants.
type Request struct {
	Move             string   `json:"move"`      // id
	Container        string   `json:"container"` // name
	Approach         Approach `json:"approach,omitempty"`
	Registry         string   `json:"registry,omitempty"`
	CloseConnections bool     `json:"close_connections,omitempty"`
	KeepVolumes      bool     `json:"keep_volumes,omitempty"`
}

// Plan is a request that was looked at: the order, and what was found.
type Plan struct {
	Order    MoveSpec           `json:"order"`
	Source   Facts              `json:"source"`
	Target   Facts              `json:"target"`
	Findings []PreflightFinding `json:"findings,omitempty"`
}

// Refusals returns the findings that forbid the migration.
func (p Plan) Refusals() (list []PreflightFinding) {
	for _, f := range p.Findings {
		if f.Refuses {
			list = append(list, f)
		}
	}
	return list
}

// Err is nil, or one error for each refusal, each a line.
func (p Plan) Err() error {
	refusals := p.Refusals()
	if len(refusals) == 0 {
		return nil
	}
	return &PreflightError{Container: p.Order.Container.Name, To: p.Order.To, Findings: refusals}
}

// PreflightError says that nothing was touched, and why.
type PreflightError struct {
	Container, To string
	Findings      []PreflightFinding
}

func (e *PreflightError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = fmt.Sprintf("%s cannot migrate to %s: %s", e.Container, e.To, f)
	}
	return strings.Join(lines, "\n")
}

// A copy that its source does not confirm lives for leaseBase, and a second longer for
// each leaseBytes of memory. A restore takes less.
const (
	leaseBase      = 30 * time.Second
	leaseBytes     = 20 << 20 // of memory, for each further second
	commitLayers   = 100      // an overlay has at most 125
	oldestCRIU     = "4.2"
	spaceAllowance = 64 << 20
	preCopyBytes   = 16 << 20 // of memory from which on it pays to copy it ahead: a dump of less takes no longer than the one before it
)

// Check makes the pre-flight: it asks both nodes, touches nothing, and says what
// would fail. An error means that it could not be asked.
func Check(ctx context.Context, source, target Node, r Request) (Plan, error) {
	var p Plan
	var err error
	if p.Order.Container, err = source.Describe(ctx, r.Container); err != nil {
		return p, err
	}
	if p.Source, err = source.Facts(ctx); err != nil {
		return p, fmt.Errorf("%s: %w", source.Name(), err)
	}
	if p.Target, err = target.Facts(ctx); err != nil {
		return p, fmt.Errorf("%s: %w", target.Name(), err)
	}
	o := &p.Order
	o.Move, o.From, o.To = r.Move, source.Name(), target.Name()
	o.Approach, o.Registry, o.CloseConnections, o.KeepVolumes = r.Approach, r.Registry, r.CloseConnections, r.KeepVolumes
	if o.Approach == ApproachAuto {
		o.Approach = choose(p)
	}
	o.PreCopy = ahead(p)
	o.Lease = leaseBase + time.Duration(o.Container.MemoryBytes/leaseBytes)*time.Second
	var lacking []PreflightFinding
	if p.Source.Engine == p.Target.Engine { // else it would be asked about what it does not know
		if lacking, err = target.Lacking(ctx, *o); err != nil {
			return p, fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	p.Findings = slices.Concat(examine(p), o.Container.Obstacles, lacking)
	return p, nil
}

// choose takes the fastest approach that is possible.
func choose(p Plan) Approach {
	switch {
	case p.Source.Engine == wire.EnginePodman:
		return ApproachBundle
	case p.Source.StorageDriver == "overlay2" && p.Target.StorageDriver == "overlay2":
		return ApproachLayer
	case p.Order.Registry != "" && p.Order.Container.Layers < commitLayers:
		return ApproachCommit
	}
	return ApproachExport
}

// examine compares the two nodes and the container. Pure.
func examine(p Plan) (list []PreflightFinding) {
	add := func(f PreflightFinding) { list = append(list, f) }
	on := func(node string, f PreflightFinding) {
		f.Node = node
		list = append(list, f)
	}
	o, c, src, dst := p.Order, p.Order.Container, p.Source, p.Target
	if o.From == o.To {
		add(refuse("same-node", "it is there already", "name another node"))
	}
	switch {
	case c.Paused:
		add(refuse("paused", "it is paused", "docker unpause "+c.Name))
	case !c.Running:
		add(refuse("not-running", "it does not run", "docker start "+c.Name))
	}
	sameEngine := src.Engine == dst.Engine
	if !sameEngine {
		add(refuse("engine", fmt.Sprintf("%s runs %s and %s runs %s, which cannot restore each other's checkpoints", o.From, engineName(src), o.To, engineName(dst)), "choose a node with "+string(src.Engine)))
	}
	if src.Arch != dst.Arch {
		add(refuse("architecture", fmt.Sprintf("%s is %s and %s is %s", o.From, src.Arch, o.To, dst.Arch), "choose a node of the same architecture"))
	}
	if src.Runtime != dst.Runtime && sameEngine {
		add(refuse("runtime", fmt.Sprintf("its containers are run by %s, those of %s by %s", src.Runtime, o.To, dst.Runtime), "give both the same default runtime"))
	}
	if missing := without(src.CPUFlags, dst.CPUFlags); len(missing) > 0 && len(dst.CPUFlags) > 0 {
		add(refuse("cpu", fmt.Sprintf("the CPU of %s lacks %s, which the program may use already", o.To, shorten(missing)), "choose a node with at least the CPU of the source"))
	}
	if src.Kernel != dst.Kernel {
		add(warn("kernel", fmt.Sprintf("%s runs Linux %s and %s Linux %s", o.From, src.Kernel, o.To, dst.Kernel), "if the restore fails, it goes on where it is"))
	}
	for _, n := range []struct {
		node  string
		facts Facts
	}{{o.From, src}, {o.To, dst}} {
		for _, f := range examineNode(n.facts) {
			on(n.node, f)
		}
	}
	if src.CRIU != "" && dst.CRIU != "" && newer(src.CRIU, dst.CRIU) {
		add(refuse("criu-older", fmt.Sprintf("CRIU %s of %s may not read what CRIU %s of %s writes", dst.CRIU, o.To, src.CRIU, o.From), "upgrade CRIU on "+o.To))
	}
	list = append(list, examineApproach(p)...)
	list = append(list, examineNetwork(p)...)
	if need := space(p); need > dst.FreeBytes {
		on(o.To, refuse("disk", fmt.Sprintf("%d bytes are needed and %d are free", need, dst.FreeBytes), "make room there: docker system prune"))
	}
	if need := c.MemoryBytes + spaceAllowance; need > src.FreeBytes {
		on(o.From, refuse("disk", fmt.Sprintf("%d bytes are needed for its memory and %d are free", need, src.FreeBytes), "make room there: docker system prune"))
	}
	return list
}

// engineName is e.g. "podman 4.3.1".
func engineName(f Facts) string { return strings.TrimSpace(string(f.Engine) + " " + f.EngineVersion) }

// examineNode returns what a node lacks whichever end it is.
func examineNode(f Facts) (list []PreflightFinding) {
	switch {
	case f.CRIU == "":
		list = append(list, refuse("criu-missing", "CRIU cannot be run there ("+f.CRIUTrouble+")", "install CRIU "+oldestCRIU+" or later: scripts/deps cluster"))
	case newer(oldestCRIU, f.CRIU):
		list = append(list, refuse("criu-old", "CRIU is "+f.CRIU, "install CRIU "+oldestCRIU+" or later: scripts/deps cluster"))
	case f.CRIUTrouble != "":
		list = append(list, refuse("criu-kernel", "CRIU does not work with its kernel ("+f.CRIUTrouble+")", "run criu check there"))
	}
	if !f.Checkpoints {
		list = append(list, refuse("experimental", "the engine has checkpoints switched off", `put "experimental": true into /etc/docker/daemon.json and restart it`))
	}
	if f.UsernsRemap {
		list = append(list, refuse("userns-remap", "the engine maps users (userns-remap), with which no checkpoint can be restored", "choose a node without"))
	}
	return list
}

// examineApproach returns what the nodes lack for an approach.
func examineApproach(p Plan) (list []PreflightFinding) {
	o := p.Order
	switch o.Approach {
	case ApproachLayer:
		for _, n := range []struct{ node, driver string }{{o.From, p.Source.StorageDriver}, {o.To, p.Target.StorageDriver}} {
			if n.driver != "overlay2" {
				f := refuse("storage-driver", "the storage driver is "+n.driver+", which keeps no folder for a container's own layer", "use --approach commit or export")
				f.Node = n.node
				list = append(list, f)
			}
		}
	case ApproachCommit:
		if o.Registry == "" {
			list = append(list, refuse("registry", "approach commit needs a registry", "name one with --registry HOST:PORT"))
		}
		if o.Container.Layers >= commitLayers {
			list = append(list, refuse("layers", fmt.Sprintf("its image has %d layers, and a file system has at most 125", o.Container.Layers), "use --approach layer, or export, which makes one of them"))
		}
	case ApproachBundle:
		if p.Source.Engine != wire.EnginePodman {
			list = append(list, refuse("approach", "approach archive is podman's", "leave --approach out"))
		}
	case ApproachExport, ApproachAuto:
	}
	if p.Source.Engine == wire.EnginePodman && o.Approach != ApproachBundle {
		list = append(list, refuse("approach", fmt.Sprintf("podman cannot migrate by approach %s", o.Approach), "leave --approach out"))
	}
	return list
}

// examineNetwork is about sockets that a restore could not bring back.
func examineNetwork(p Plan) (list []PreflightFinding) {
	o, c := p.Order, p.Order.Container
	moves := len(c.Networks) > 0 // the address goes with it
	for _, n := range c.Networks {
		moves = moves && n.Fixed && n.Driver != "bridge"
	}
	if n := len(c.Connections); n > 0 {
		example := fmt.Sprintf("%d established TCP connections, such as %s with %s", n, c.Connections[0].Local, c.Connections[0].Remote)
		switch {
		case moves && p.Source.TCP == "established" && p.Target.TCP == "established":
		case moves && p.Target.TCP == "":
			f := refuse("tcp-option", example+", which CRIU does not restore unless told to", "put tcp-established into /etc/criu/runc.conf on both nodes")
			f.Node = o.To
			list = append(list, f)
		case o.CloseConnections && p.Target.TCP == "close":
			list = append(list, warn("tcp-closed", example+" will be closed", ""))
		case o.CloseConnections:
			f := refuse("tcp-close", example+" cannot be closed", "put tcp-close into /etc/criu/runc.conf there")
			f.Node = o.To
			list = append(list, f)
		default:
			list = append(list, refuse("tcp", "it has "+example+", and its address stays behind", "wait until they end, or --close-connections, or give it a fixed address in a macvlan or overlay network"))
		}
	}
	if len(c.Bound) > 0 && !moves {
		for _, n := range c.Networks {
			if n.Driver == "null" {
				return list
			}
		}
		list = append(list, refuse("bound", fmt.Sprintf("it has a socket bound to %s, an address that stays behind", c.Bound[0]), "let it listen on 0.0.0.0 or [::]"))
	}
	return list
}

// ahead says whether memory is copied twice, the first time while the container runs.
func ahead(p Plan) bool {
	memory := p.Order.Container.MemoryBytes
	return (p.Order.Approach == ApproachBundle || p.Order.Approach == ApproachLayer) && p.Source.SoftDirty && memory >= preCopyBytes &&
		space(p)+memory <= p.Target.FreeBytes && 2*memory+spaceAllowance <= p.Source.FreeBytes
}

// space returns how much room the migration needs on the target at most, in bytes;
// memory that is copied ahead comes on top.
func space(p Plan) int64 {
	c := p.Order.Container
	need := c.MemoryBytes + c.LayerBytes + c.ImageBytes + spaceAllowance
	for _, v := range c.Volumes {
		need += v.Bytes
	}
	return need
}

func without(all, some []string) (list []string) {
	for _, f := range all {
		if !slices.Contains(some, f) {
			list = append(list, f)
		}
	}
	return list
}

func shorten(list []string) string {
	if len(list) > 5 {
		return strings.Join(list[:5], ", ") + fmt.Sprintf(" and %d more", len(list)-5)
	}
	return strings.Join(list, ", ")
}

// newer compares versions such as "4.2.1".
func newer(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := 0, 0
		if i < len(as) {
			x, _ = strconv.Atoi(as[i])
		}
		if i < len(bs) {
			y, _ = strconv.Atoi(bs[i])
		}
		if x != y {
			return x > y
		}
	}
	return false
}
