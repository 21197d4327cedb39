// SPDX-License-Identifier: Apache-2.0

package tc

import "testing"

func TestLeaving(t *testing.T) {
	b := newBed(t, 1)
	backend := b.backend()
	b.run(backend)
	b.Leaving(backend)
}
