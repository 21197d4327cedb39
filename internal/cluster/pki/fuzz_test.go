// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzRequest: whatever a stranger asks to have signed, looking at it costs what one input may.
func FuzzRequest(f *testing.F) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	a, err := NewAuthority(now)
	if err != nil {
		f.Fatal(err)
	}
	good, err := Request(a.key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	boundtest.Seeds[[]byte](f, bound.Body, "-----BEGIN CERTIFICATE REQUEST-----\n")
	f.Fuzz(func(t *testing.T, request []byte) {
		boundtest.Hold(t, func() {
			if cert, err := a.IssueNode("n1", request, now); err == nil && cert.Subject.CommonName != "n1" {
				t.Errorf("signed for %q", cert.Subject.CommonName)
			}
		})
	})
}
