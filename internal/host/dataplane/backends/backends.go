// SPDX-License-Identifier: Apache-2.0

// Package backends opens the backend of a link: the BPF qdisc where the kernel has BPF
// qdiscs, else HTB, and an IFB device with one of them for what a link receives. The agent,
// the lab and weir cleanup share it.
package backends

import (
	"context"
	"errors"
	"log/slog"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/ifb"
	"weir/internal/host/dataplane/mark"
	"weir/internal/host/dataplane/tc"
)

// Demand returns an error that wraps dataplane.ErrNoSupport if this kernel has no BPF qdiscs.
func Demand() error { return bpf.Demand() }

// Choose returns the kind of backend that a kind stands for on this kernel: plan.BackendBPF or
// plan.BackendTC. lacks says why plan.BackendAuto, or "", is not the former.
func Choose(kind string) (chosen string, lacks error) {
	if kind != plan.BackendAuto && kind != "" {
		return kind, nil
	}
	if err := bpf.Supported(); errors.Is(err, dataplane.ErrNoSupport) {
		return plan.BackendTC, err
	}
	return plan.BackendBPF, nil
}

// Open opens the backend for packets that a device sends. The kind is one that Choose returns.
func Open(kind, device string, opts dataplane.Options, log *slog.Logger) (dataplane.Backend, error) {
	if kind == plan.BackendTC {
		return asBackend(tc.New(device, opts, log))
	}
	return asBackend(bpf.New(device, opts, log))
}

// OpenEnd opens the backend of what has an IFB: the ingress of a device, or a zone of it.
func OpenEnd(kind string, end ifb.End, opts dataplane.Options, log *slog.Logger) (dataplane.Backend, error) {
	open := func(name string, opts dataplane.Options) (dataplane.Backend, error) {
		return Open(kind, name, opts, log)
	}
	return asBackend(ifb.New(end, opts, open, log))
}

// OpenSockets returns the classes of workloads without processes of which sockets are open.
func OpenSockets(opts dataplane.Options, log *slog.Logger) (map[plan.ClassID]bool, error) {
	return mark.OpenSockets(opts, log)
}

// asBackend keeps a failed constructor's nil from becoming a backend.
func asBackend[B dataplane.Backend](b B, err error) (dataplane.Backend, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// CleanupIFB removes an IFB device of Weir's, and has packets pass as they did before.
func CleanupIFB(ctx context.Context, i device.IFB, opts dataplane.Options, log *slog.Logger) error {
	open := func(name string, opts dataplane.Options) (dataplane.Backend, error) {
		return Open(plan.BackendTC, name, opts, log)
	}
	b, err := ifb.New(ifb.End{IFB: i}, opts, open, log)
	if err != nil {
		return err
	}
	err = b.Release()
	if err == nil {
		err = Cleanup(ctx, i.Name(), opts, log)
	}
	return errors.Join(err, b.Cleanup(ctx), b.Close())
}

// Cleanup gives a device back as Weir found it. It asks both backends, since the kernel may
// have been another one when the link was taken over.
func Cleanup(ctx context.Context, device string, opts dataplane.Options, log *slog.Logger) error {
	var open []dataplane.Backend
	for _, kind := range []string{plan.BackendBPF, plan.BackendTC} {
		backend, err := Open(kind, device, opts, log)
		if err != nil && !errors.Is(err, dataplane.ErrNoSupport) {
			return err
		}
		if err == nil {
			open = append(open, backend)
		}
	}
	var failed []error
	for _, backend := range open {
		failed = append(failed, backend.Cleanup(ctx), backend.Close())
	}
	return errors.Join(failed...)
}
