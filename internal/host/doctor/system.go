// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/core/event"
)

// oldestCRIU is the first CRIU with which weir migrate is tested.
var oldestCRIU = [2]int{4, 2}

// largestError bounds the error of a cluster's clock: two such clocks are half a minute
// apart, and an order allows a minute.
const largestError = 15 * time.Second

// inCluster says whether the configuration makes the host a node.
func (h Host) inCluster() bool { return h.Config.Err == nil && h.Config.Value.Cluster.Manager != "" }

func engines(h Host) []Finding {
	wanted := h.Config.Err != nil || h.Config.Value.Docker.Enabled
	socket := h.Config.Value.Docker.Socket
	var all []Finding
	docker := false
	for _, e := range h.Engines {
		docker = docker || e.Socket == socket
		all = append(all, e.finding(wanted && e.Socket == socket))
	}
	switch {
	case wanted && !docker && !h.Dockerd && h.Config.Err == nil && !h.Config.Value.Docker.Asked:
		all = append(all, Finding{Level: OK, Seen: "no Docker on this host; its containers are looked for once there is one"})
	case wanted && !docker && socket != "":
		all = append(all, Finding{Level: Fails, Seen: "there is no socket " + socket + ", where Docker's containers are looked for",
			Remedy: "start Docker, or name its socket: docker: {socket: PATH}, or look for none: docker: {enabled: false}"})
	case len(all) == 0:
		return ok("none is there and none is looked for (docker: {enabled: false})")
	}
	return all
}

// finding judges an engine. One that the agent asks is one that workloads are not seen without.
func (e EngineSocket) finding(asked bool) Finding {
	name := e.Name + " at " + e.Socket
	switch {
	case errors.Is(e.Version.Err, fs.ErrPermission):
		return unknown(name, e.Version.Err)[0]
	case e.Version.Err != nil:
		level := Warning
		if asked {
			level = Fails
		}
		return Finding{Level: level, Seen: name + " does not answer: " + e.Version.Err.Error(), Remedy: "systemctl status " + e.Name}
	}
	return Finding{Level: OK, Seen: strings.TrimSpace(name + " " + e.Version.Value)}
}

func criu(h Host) []Finding {
	v, known := release(h.CRIU.Value)
	old := !known || v[0] < oldestCRIU[0] || v[0] == oldestCRIU[0] && v[1] < oldestCRIU[1]
	const remedy = "install CRIU 4.2 or later; until then no container is moved from or to this node"
	switch {
	case h.CRIU.Err == nil && !old:
		return ok("CRIU " + h.CRIU.Value)
	case h.CRIU.Err != nil && !h.inCluster():
		return ok("it cannot be run (" + h.CRIU.Err.Error() + "); only weir migrate needs it")
	case h.CRIU.Err != nil:
		return warning("it cannot be run: "+h.CRIU.Err.Error(), remedy)
	case !h.inCluster():
		return ok("CRIU " + h.CRIU.Value + ", too old for weir migrate, which needs 4.2")
	}
	return warning("CRIU "+h.CRIU.Value+" is older than 4.2", remedy)
}

func clock(h Host) []Finding {
	if h.Clock.Err != nil {
		return unknown("adjtimex", h.Clock.Err)
	}
	switch trouble := h.Clock.Value.trouble(); {
	case trouble != "" && h.inCluster():
		return warning(trouble, clockRemedy)
	case h.Clock.Value.Synchronised:
		return ok(fmt.Sprintf("synchronised, wrong by %v at most", h.Clock.Value.off().Round(time.Millisecond)))
	}
	return ok("not synchronised; only a cluster needs that")
}

const clockRemedy = "run a time service: systemctl enable --now systemd-timesyncd, or chrony"

// ClockTrouble returns what is wrong with the clock of this host for a node of a cluster, and what
// to do; "" if nothing is, or that cannot be told.
func ClockTrouble() (seen, remedy string) {
	read := lookClock()
	if read.Err != nil {
		return "", ""
	}
	return read.Value.trouble(), clockRemedy
}

func (c KernelClock) off() time.Duration { return time.Duration(c.MaxErrorUsec) * time.Microsecond }

func (c KernelClock) trouble() string {
	switch {
	case !c.Synchronised:
		return "not synchronised; a node whose clock is more than a minute off refuses the manager's orders"
	case c.off() > largestError:
		return fmt.Sprintf("it may be wrong by %v; the hosts of a cluster may be a minute apart", c.off().Round(time.Second))
	}
	return ""
}

func cgroups(h Host) []Finding {
	if h.Cgroups == "" {
		return ok("version 2: units and containers with the host's network can be told apart")
	}
	seen, remedy, _ := strings.Cut(h.Cgroups, "; ")
	return warning(seen, remedy+" (only units, cgroups and containers with the host's network need it)")
}

const (
	unchargedBPF = 511  // Linux 5.11 counts BPF's memory in cgroups, no longer as locked memory
	fewFiles     = 1024 // POSIX's usual limit; one scrape, a stream and the sources fit, many workloads do not
)

func limits(h Host) []Finding {
	var all []Finding
	add := func(f []Finding) { all = append(all, f...) }
	v, known := release(h.Kernel)
	if l := h.Limits.Memlock; known && v[0]*100+v[1] < unchargedBPF && l != math.MaxUint64 {
		add(warning(fmt.Sprintf("memlock is %d bytes, which this kernel charges BPF's maps to", l), "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit"))
	} else {
		add(ok("memlock does not bound BPF's maps"))
	}
	if n := h.Limits.OpenFiles; n <= fewFiles {
		add(warning(fmt.Sprintf("at most %d open files", n), "ulimit -Hn 65536, or LimitNOFILE=65536 in the unit"))
	} else {
		add(ok(fmt.Sprintf("at most %d open files", n)))
	}
	switch u := h.Limits.UnprivilegedBPF; {
	case u.Err != nil:
		add(unknown("kernel.unprivileged_bpf_disabled", u.Err))
	case u.Value == 0:
		add(warning("every user may load BPF programs (kernel.unprivileged_bpf_disabled is 0)", "sysctl kernel.unprivileged_bpf_disabled=1; Weir does not need it"))
	default:
		add(ok("only root may load BPF programs"))
	}
	return all
}

func agent(h Host) []Finding {
	switch err := h.Agent.Err; {
	case errors.Is(err, api.ErrNoAgent):
		return ok("none runs at " + h.Socket)
	case errors.Is(err, api.ErrNotPermitted):
		return unknown("agent", err)
	case err != nil:
		return fails(err.Error(), "journalctl -u weir")
	}
	st := h.Agent.Value
	all := ok(st.Version + " runs and all is well")
	if n := len(st.Problems); n > 0 {
		all = ok(fmt.Sprintf("%s runs; what it finds wrong (weir status) follows", st.Version))
	}
	for _, p := range st.Problems {
		level := Warning
		if p.Severity == event.Error {
			level = Fails
		}
		all = append(all, Finding{Level: level, Seen: p.Text, Remedy: p.Remedy})
	}
	return all
}
