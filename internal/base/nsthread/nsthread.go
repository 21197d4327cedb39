// SPDX-License-Identifier: Apache-2.0

// Package nsthread runs functions in other network namespaces.
//
// Linux keeps the namespace per thread, Go moves goroutines between threads: here a
// function gets a thread for itself, which comes back before it serves others, or ends.
// Goroutines that the function starts are not in the namespace; sockets that it opens,
// and processes that it starts, are.
package nsthread

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// Do runs f on a thread that f may take to any network namespace.
func Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			done <- fmt.Errorf("find this thread's network namespace: %w", err)
			return
		}
		defer home.Close()
		err = f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread() // else the thread ends with this goroutine
		}
		done <- err
	}()
	return <-done
}

// In runs f in a network namespace.
func In(ns netns.NsHandle, f func() error) error {
	return Do(func() error {
		if err := netns.Set(ns); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
		return f()
	})
}

// InPath runs f in the network namespace at path, such as /proc/PID/ns/net or
// /run/netns/NAME.
func InPath(path string, f func() error) error {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	return In(ns, f)
}

// New makes a network namespace, runs f in it and returns it, open; the descriptor is
// all that holds it.
func New(f func() error) (made netns.NsHandle, err error) {
	made = netns.None()
	err = Do(func() (err error) {
		if made, err = netns.New(); err != nil {
			made = netns.None()
			return fmt.Errorf("make a network namespace: %w", err)
		}
		return f()
	})
	if err != nil && made.IsOpen() {
		made.Close()
		made = netns.None()
	}
	return made, err
}
