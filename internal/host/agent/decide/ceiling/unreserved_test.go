// SPDX-License-Identifier: Apache-2.0

package ceiling

import (
	"testing"

	"weir/internal/core/policy"
)

// Of what a policy asks for, all that sets a rate aside goes, and all that bounds it stays.
func TestUnreserved(t *testing.T) {
	of := func(args ...string) policy.Policy {
		t.Helper()
		p := policy.MustChange(args...).Apply(policy.Default())
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct{ given, want policy.Policy }{
		{of("min", "20mbit", "max", "50mbit"), of("max", "50mbit")},
		{of("reserve", "10mbit"), of("max", "10mbit")},
		{of("zones", "lan min 5mbit max 9mbit"), of("zones", "lan max 9mbit")},
		{of("ingress.min", "5mbit", "ingress.max", "7mbit"), of("ingress.max", "7mbit")},
		{of("when", "mon 08:00-09:00 UTC min 5mbit max 8mbit; tue 08:00-09:00 UTC min 2mbit"), of("when", "mon 08:00-09:00 UTC max 8mbit")},
		{of("weight", "3", "max", "8mbit"), of("weight", "3", "max", "8mbit")},
	} {
		before := asText(t, c.given)
		if got, want := asText(t, Unreserved(c.given)), asText(t, c.want); got != want {
			t.Errorf("%s became %s, want %s", before, got, want)
		}
		if after := asText(t, c.given); after != before {
			t.Errorf("%s was changed into %s", before, after)
		}
	}
}

func asText(t *testing.T, p policy.Policy) string {
	t.Helper()
	b, err := p.JSON(policy.OnWorkload)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
