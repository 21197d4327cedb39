// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/host/dataplane/bpf"
)

// NullQdisc is the kind of the null qdisc, as tc knows it.
const NullQdisc = "lab_null"

// Null makes the kind NullQdisc known to the kernel until Close; a qdisc of that kind that
// is on a device by then works on. The error says what to do where the kernel has no BPF
// qdiscs.
func (p *Programs) Null() error {
	if err := bpf.Supported(); err != nil {
		return fmt.Errorf("the null qdisc: %w; run the scenario in the VM (vm/run)", err)
	}
	spec, err := loadNull()
	if err != nil {
		return err
	}
	objects, err := ebpf.NewCollection(spec)
	if err != nil {
		return fmt.Errorf("load the null qdisc: %w", err)
	}
	p.objects = append(p.objects, objects)
	l, err := link.AttachStructOps(link.StructOpsOptions{Map: objects.Maps[nullMapLabNull]})
	if err != nil {
		return fmt.Errorf("register the null qdisc: %w", err)
	}
	p.links = append(p.links, l)
	return nil
}
