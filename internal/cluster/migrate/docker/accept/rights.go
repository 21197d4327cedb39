// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
)

// namespaces of its own are all that a container gets.
func (e *examiner) namespaces(h *container.HostConfig) {
	switch h.IpcMode {
	case "private", "none", "shareable":
		h.IpcMode = ""
	}
	// With cgroups of version 1 the host's is the engine's default.
	if h.CgroupnsMode == "private" || h.CgroupnsMode == "host" && e.at.Cgroups == "1" {
		h.CgroupnsMode = ""
	}
	mode := h.NetworkMode
	h.NetworkMode = ""
	switch {
	case mode == "" || mode.IsDefault() || mode.IsBridge() || mode.IsNone():
	case mode.IsHost():
		if !e.rules.HostNetwork {
			e.Refuse("HostConfig.NetworkMode", string(mode), "host_network: true")
		}
	case mode.IsContainer():
		e.Refuse("HostConfig.NetworkMode", string(mode), "")
	default:
		if _, ok := e.inspect.NetworkSettings.Networks[string(mode)]; !ok {
			e.Refuse("HostConfig.NetworkMode", string(mode), "")
		}
	}
}

// coreMasked and coreReadonly are the paths that every engine hides, or protects, from
// a container; newer ones more.
var (
	coreMasked   = []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"}
	coreReadonly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func (e *examiner) security(h *container.HostConfig) {
	h.CapAdd = slices.DeleteFunc(slices.Clone(h.CapAdd), e.rules.Capability)
	for _, name := range h.CapAdd {
		e.Refuse("HostConfig.CapAdd", name, "capabilities: ["+name+"]")
	}
	h.CapAdd = nil
	for _, option := range h.SecurityOpt {
		switch option {
		case "no-new-privileges", "no-new-privileges:true", "no-new-privileges=true":
		default:
			e.Refuse("HostConfig.SecurityOpt", option, "")
		}
	}
	h.SecurityOpt = nil
	for _, group := range h.GroupAdd {
		if !slices.Contains(e.rules.Groups, group) {
			e.Refuse("HostConfig.GroupAdd", group, `groups: ["`+group+`"]`)
		}
	}
	h.GroupAdd = nil
	for _, name := range slices.Sorted(maps.Keys(h.Sysctls)) {
		if !slices.Contains(e.rules.Sysctls, name) {
			e.Refuse("HostConfig.Sysctls", name, "sysctls: ["+name+"]")
		}
	}
	h.Sysctls = nil
	for _, list := range []struct {
		field string
		paths *[]string
		core  []string
	}{{"HostConfig.MaskedPaths", &h.MaskedPaths, coreMasked}, {"HostConfig.ReadonlyPaths", &h.ReadonlyPaths, coreReadonly}} {
		if *list.paths == nil { // the engine's own
			continue
		}
		for _, p := range list.core {
			if !slices.Contains(*list.paths, p) {
				e.Refuse(list.field, "without "+p, "")
			}
		}
		for _, p := range *list.paths {
			if path.Clean(p) != p || !strings.HasPrefix(p, "/proc/") && !strings.HasPrefix(p, "/sys/") {
				e.Refuse(list.field, p, "")
			}
		}
		*list.paths = nil
	}
}

// resources: limits may be set, and not lifted.
func (e *examiner) resources(r *container.Resources, oom *int) {
	r.CPUShares, r.Memory, r.NanoCPUs, r.BlkioWeight, r.CPUPeriod, r.CPUQuota, r.CpusetCpus, r.CpusetMems = 0, 0, 0, 0, 0, 0, "", ""
	r.MemoryReservation, r.MemorySwap, r.MemorySwappiness, r.PidsLimit = 0, 0, nil, nil
	if *oom > 0 { // rather this one than others
		*oom = 0
	}
	for _, limit := range r.Ulimits {
		if limit != nil && !e.rules.Ulimit(limit.Name) {
			e.Refuse("HostConfig.Ulimits", limit.Name, "ulimits: ["+limit.Name+"]")
		}
	}
	r.Ulimits = nil
}
