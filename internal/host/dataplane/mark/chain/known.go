// SPDX-License-Identifier: Apache-2.0

package chain

import "github.com/cilium/ebpf"

// Known is what was read of hooks, each for as long as its programs are as they were: a link that
// ends, another program in it, and one of another owner before it are new fingerprints.
type Known[T any] map[place]known[T]

type place struct {
	ifindex int
	what    string // is read there
}

type known[T any] struct {
	programs Fingerprint
	value    T
}

// Get returns what read does, or did when the programs were as they are.
func (k Known[T]) Get(ifindex int, hook ebpf.AttachType, what string, read func() (T, error)) (T, error) {
	if hook == ebpf.AttachNone {
		return read()
	}
	at, programs := place{ifindex, what}, FingerprintAt(ifindex, hook)
	if before, ok := k[at]; ok && programs != (Fingerprint{}) && before.programs == programs {
		return before.value, nil
	}
	value, err := read()
	delete(k, at)
	if err == nil && len(k) < mostKnown {
		k[at] = known[T]{programs, value}
	}
	return value, err
}

// mostKnown bounds what is remembered; beyond, it is read each time.
const mostKnown = 1 << 14
