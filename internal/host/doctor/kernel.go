// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// oldestBPF is the first kernel with BPF qdiscs.
var oldestBPF = [2]int{6, 16}

const betterKernel = "for exact shares take Linux 6.16 or later with CONFIG_NET_SCH_BPF=y, such as Debian's from trixie-backports; until then HTB steers"

// release returns the first two numbers of a kernel's release.
func release(text string) (v [2]int, ok bool) {
	n, err := fmt.Sscanf(text, "%d.%d", &v[0], &v[1])
	return v, err == nil && n == 2
}

func kernel(h Host) []Finding {
	v, known := release(h.Kernel)
	switch {
	case !known:
		return []Finding{{Level: Unknown, Seen: fmt.Sprintf("the kernel's release is %q", h.Kernel), Remedy: "see uname -r"}}
	case v[0] < oldestBPF[0] || v[0] == oldestBPF[0] && v[1] < oldestBPF[1]:
		return []Finding{{Level: h.worse(), Seen: "Linux " + h.Kernel + " is older than BPF qdiscs", Remedy: betterKernel}}
	}
	return ok("Linux " + h.Kernel)
}

// worse returns the level of a BPF backend that cannot run: the configuration may demand
// that backend.
func (h Host) worse() Level {
	if h.Config.Err == nil && h.Config.Value.Backend == plan.BackendBPF {
		return Fails
	}
	return Warning
}

// bpfQdisc compares the kernel's options with the result of the backend's probe.
func bpfQdisc(h Host) []Finding {
	const option = "CONFIG_NET_SCH_BPF"
	built := option + " cannot be looked up"
	if h.Options.Err == nil {
		built = option + "=" + h.Options.Value[option]
		if h.Options.Value[option] == "" {
			built = option + " is not set"
		}
	}
	if h.BPF == nil {
		return ok("the backend's probe finds BPF qdiscs; " + built)
	}
	return []Finding{{Level: h.worse(), Seen: built + "; probe: " + h.BPF.Error(), Remedy: betterKernel}}
}

func btf(h Host) []Finding {
	if h.BTF != nil {
		return []Finding{{Level: h.worse(), Seen: h.BTF.Error(), Remedy: "take a kernel with CONFIG_DEBUG_INFO_BTF=y; without it Weir cannot load its qdisc"}}
	}
	return ok("type information of the kernel is there")
}

func jit(h Host) []Finding {
	switch {
	case errors.Is(h.JIT.Err, fs.ErrPermission):
		return unknown("net.core.bpf_jit_enable", h.JIT.Err)
	case h.JIT.Err != nil: // a kernel without the switch always compiles
		return ok("always on")
	case h.JIT.Value == 0:
		return []Finding{{Level: h.worse(), Seen: "net.core.bpf_jit_enable is 0: the kernel interprets BPF programs and refuses BPF qdiscs", Remedy: "sysctl net.core.bpf_jit_enable=1"}}
	}
	return ok(fmt.Sprintf("on (net.core.bpf_jit_enable is %d)", h.JIT.Value))
}

// fallback checks HTB, which steers where there are no BPF qdiscs.
func fallback(h Host) []Finding {
	err := h.Fallback.Err
	needed := h.BPF != nil || h.Config.Err == nil && h.Config.Value.Backend == plan.BackendTC
	switch {
	case errors.Is(err, dataplane.ErrPrivilege):
		return unknown("HTB", err)
	case err != nil && !needed:
		return ok("not needed: BPF qdiscs are there (" + err.Error() + ")")
	case err != nil:
		return fails(err.Error(), "without BPF qdiscs and HTB no link can be steered: modprobe sch_htb cls_bpf, or take another kernel")
	case h.Fallback.Value != "fq_codel" && needed:
		return warning("HTB with "+h.Fallback.Value+" for each workload: a bulk transfer delays the other connections of its workload",
			"modprobe sch_fq_codel, or take a kernel with CONFIG_NET_SCH_FQ_CODEL")
	}
	return ok("HTB with " + h.Fallback.Value + " for each workload can be set up")
}

// remedyFor returns the remedy that lets doctor read the part next time.
func remedyFor(err error) string {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, dataplane.ErrPrivilege) {
		return "run weir doctor as root"
	}
	return ""
}
