// SPDX-License-Identifier: Apache-2.0

// Package look reads from the kernel what package paths judges: the devices of the host, those in
// the namespaces that workloads' devices lead into, and whether packets got in there by another
// way.
//
//	w, err := look.New(linked)
//	w.Ask(links, workloads)
//	err = w.Run(ctx, changes, func(r paths.Result) { ... })
//
// Run looks once a second, sooner after a change of devices, and reports when the result differs.
// It enters no namespace: the kernel lists the devices of another one for the number that it has
// here, and gives notice of changes there. What workloads have received is asked of 32 a second,
// and of a hundred quiet ones when something has come by the links, so that 4,000 workloads cost as
// much as those.
//
// Packets that pass the host's end of a pair are counted at both ends. A data plane that carries
// them past it by bpf_redirect_peer, or by XDP, has them counted at the inner end alone.
//
// Without CAP_NET_BROADCAST there is no notice of other namespaces: then they are looked into in
// turn.
//
// What it does not do: see namespaces of workloads that no device of the host leads into.
package look
