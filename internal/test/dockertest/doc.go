// SPDX-License-Identifier: Apache-2.0

// Package dockertest runs a private Docker engine, for tests and demonstrations.
//
// The engine is the host's own dockerd, started in a network namespace and a
// mount namespace of its own, with its data, sockets and cgroups under names of
// its own. Nothing that belongs to the host is touched: no bridge, no route, no
// iptables rule, not the engine that may already run there. No image is pulled
// either: an image is made of a few of the host's programs and the libraries
// they need.
//
//	e := dockertest.ForTest(t) // skips the test where there is no dockerd
//	id := e.MustRun(t, dockertest.Container{Name: "web", Labels: map[string]string{"weir.weight": "3"}})
//	e.Command(ctx, "ip", "link").Run() // in the engine's network namespace
//
// Outside of tests, Start and Engine.Stop do the same. It needs root. When the
// process that started an engine is killed, the kernel ends the engine with it;
// its folder in the temporary directory and its cgroups stay.
//
// What it does not do: iptables (so no published ports and no masquerading) and
// live-restore.
package dockertest
