// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/invalid"
)

func TestPrintedRates(t *testing.T) {
	for _, tt := range []struct {
		rate          Rate
		text, compact string
	}{
		{0, "0 bit/s", "0bit"},
		{999, "999 bit/s", "999bit"},
		{1000, "1 kbit/s", "1kbit"},
		{800e3, "800 kbit/s", "800kbit"},
		{20e6, "20 Mbit/s", "20mbit"},
		{33333333, "33.333333 Mbit/s", "33.333333mbit"},
		{1000001, "1.000001 Mbit/s", "1.000001mbit"},
		{15e8, "1.5 Gbit/s", "1.5gbit"},
		{MaxRate, "1000 Tbit/s", "1000tbit"},
		{Unlimited, "unlimited", "18446744.073709551615tbit"},
	} {
		if tt.rate.String() != tt.text || tt.rate.Compact() != tt.compact {
			t.Errorf("%d prints as %q and %q, want %q and %q", uint64(tt.rate), tt.rate.String(), tt.rate.Compact(), tt.text, tt.compact)
		}
	}
}

func TestApprox(t *testing.T) {
	for bps, want := range map[float64]string{
		0: "0 bit/s", -5: "0 bit/s", math.NaN(): "0 bit/s", math.Inf(1): "unlimited", 1e300: "unlimited",
		0.2: "0 bit/s", 12.6: "13 bit/s", 16666666.67: "16.7 Mbit/s", 999_600: "1 Mbit/s", 999_400: "999 kbit/s",
		123456789: "123 Mbit/s", 1.235e9: "1.24 Gbit/s", 100e6: "100 Mbit/s",
	} {
		if got := Approx(bps); got != want {
			t.Errorf("Approx(%v) = %q, want %q", bps, got, want)
		}
	}
}

func TestAmountOf(t *testing.T) {
	for _, tt := range []struct {
		amount   Amount
		capacity Rate
		want     Rate
	}{
		{Amount{}, 100 * mbit, 0},
		{Amount{Rate: 20 * mbit}, 100 * mbit, 20 * mbit},
		{Amount{Rate: 20 * mbit}, 10 * mbit, 20 * mbit}, // admission decides whether there is room
		{Amount{Percent: 25}, 100 * mbit, 25 * mbit},
		{Amount{Percent: 33.3}, 1000 * mbit, 333 * mbit}, // exactly, though 33.3 has no exact float64
		{Amount{Percent: 33.3333}, 100, 33},              // down
		{Amount{Percent: 0.0001}, 1000, 1},               // but never to none
		{Amount{Percent: 100}, MaxRate, MaxRate},
		{Amount{Percent: 100}, Unlimited, Unlimited},
		{Amount{Percent: 400}, 100, 100},
		{Amount{Percent: math.NaN()}, 100, 0},
		{Amount{Percent: -1}, 100, 0},
	} {
		if got := tt.amount.Of(tt.capacity); got != tt.want {
			t.Errorf("%+v of %s is %s, want %s", tt.amount, tt.capacity, got, tt.want)
		}
	}
}

// Percentages that add up to 100 always fit, on a link on which the smallest
// comes to one bit per second.
func TestSharesOfALinkFitIntoIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, left := mbit+anyRate(t), 100*int(percentSteps)
		var sum Rate
		for left > 0 {
			steps := rapid.IntRange(1, left).Draw(t, "ten-thousandths")
			sum += Amount{Percent: float64(steps) / percentSteps}.Of(capacity)
			left -= steps
		}
		if sum > capacity {
			t.Errorf("shares of %d add up to %d", capacity, sum)
		}
	})
}

func TestCheck(t *testing.T) {
	good := []Policy{
		Default(),
		{Weight: MaxWeight, Min: Amount{Rate: 20 * mbit}, Max: Amount{Rate: 20 * mbit}},
		{Weight: 1, Min: Amount{Percent: 10}, Max: Amount{Percent: 12.5}},
		{Weight: 1, Min: Amount{Percent: 90}, Max: Amount{Rate: 20 * mbit}}, // depends on the link
		{Weight: 1, LimitPackets: MaxLimitPackets, LimitBytes: MaxLimitBytes},
		{Weight: 1, LimitPackets: 1, LimitBytes: MinLimitBytes},
	}
	for _, p := range good {
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	var out strings.Builder
	for _, p := range []Policy{
		{},
		{Weight: MaxWeight + 1},
		{Weight: 1, Min: Amount{Rate: 30 * mbit}, Max: Amount{Rate: 20 * mbit}},
		{Weight: 1, Min: Amount{Percent: 30}, Max: Amount{Percent: 20}},
		{Weight: 1, Min: Amount{Rate: 1}},
		{Weight: 1, Max: Amount{Rate: MaxRate + 1}},
		{Weight: 1, Min: Amount{Rate: 20 * mbit, Percent: 20}},
		{Weight: 1, Max: Amount{Percent: 100.5}},
		{Weight: 1, Max: Amount{Percent: -5}},
		{Weight: 1, Max: Amount{Percent: math.NaN()}},
		{Weight: 1, Max: Amount{Percent: 100.0 / 3}},
		{Weight: 1, LimitPackets: MaxLimitPackets + 1},
		{Weight: 1, LimitBytes: 100},
		{Weight: 1, LimitBytes: MaxLimitBytes + 1},
	} {
		err := p.Check()
		var e *invalid.Error
		if !errors.As(err, &e) || e.Field == "" || e.Remedy == "" {
			t.Errorf("%+v: %v; want an *Error with field and remedy", p, err)
			continue
		}
		fmt.Fprintln(&out, e)
	}
	golden(t, "check.txt", out.String())
}

func TestClaim(t *testing.T) {
	p := Policy{Weight: 3, Min: Amount{Percent: 20}, Max: Amount{Rate: 50 * mbit}}
	got, err := p.Sharer(100 * mbit)
	want := Sharer{Weight: 3, Min: 20 * mbit, Max: 50 * mbit, Demand: Unlimited}
	if err != nil || got != want {
		t.Errorf("sharer %+v, %v; want %+v", got, err, want)
	}
	var out strings.Builder
	for _, tt := range []struct {
		policy   Policy
		capacity Rate
	}{
		{p, 1000 * mbit}, // 20 % of it is more than the max
		{Policy{Weight: 1, Min: Amount{Rate: 20 * mbit}, Max: Amount{Percent: 10}}, 100 * mbit},
		{Policy{Weight: 0}, 100 * mbit},
	} {
		_, err := tt.policy.Sharer(tt.capacity)
		if err == nil {
			t.Errorf("%+v is a sharer of a link of %s", tt.policy, tt.capacity)
			continue
		}
		fmt.Fprintln(&out, err)
	}
	golden(t, "sharer.txt", out.String())
}
