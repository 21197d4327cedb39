// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf/btf"

	"weir/internal/host/dataplane"
)

// Supported says whether this kernel has BPF qdiscs; if not, the error wraps
// dataplane.ErrNoSupport and names the missing feature.
var Supported = sync.OnceValue(func() error {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return fmt.Errorf("%w: it has no type information (CONFIG_DEBUG_INFO_BTF): %w", dataplane.ErrNoSupport, err)
	}
	_, err = spec.AnyTypeByName("bpf_struct_ops_Qdisc_ops")
	if errors.Is(err, btf.ErrNotFound) {
		return fmt.Errorf("%w: it has no BPF qdiscs; they need Linux 6.16 or later with CONFIG_NET_SCH_BPF=y", dataplane.ErrNoSupport)
	}
	return err
})

// Demand returns nil if this kernel has BPF qdiscs. Otherwise the error wraps that of
// Supported and has a remedy: it is for a user who asked for this backend by name and
// must not get another one.
func Demand() error {
	if err := Supported(); err != nil {
		return fmt.Errorf("backend bpf: %w; boot such a kernel, or choose the backend auto or tc", err)
	}
	return nil
}
