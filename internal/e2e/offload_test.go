// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// gso returns the size limit of offloaded packets on a device.
func (s *space) gso(device string) uint32 {
	l, err := s.LinkByName(device)
	s.must("find "+device, err)
	return l.Attrs().GSOMaxSize
}

// A namespace that is detached gets back the size of offloaded packets that it had.
func TestDetachGivesOffloadBack(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	former := b.srv.gso("eth0")
	b.weir("attach", "server", "--netns", b.srv.name)
	await(t, 5*time.Second, "the limit", func() error {
		if now := b.srv.gso("eth0"); now >= former {
			return fmt.Errorf("gso_max_size is still %d", now)
		}
		return nil
	})
	b.weir("detach", "server")
	await(t, 5*time.Second, "the former limit", func() error {
		if now := b.srv.gso("eth0"); now != former {
			return fmt.Errorf("gso_max_size is %d, was %d", now, former)
		}
		return nil
	})
}
