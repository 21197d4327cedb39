// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/quota"
)

// ParseQuota reads a quota as package quota does, nil for "none" or nothing. The error is an
// *invalid.Error; its field is such as "quota.per".
func ParseQuota(text string) (*quota.Quota, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return nil, nil
	}
	q, err := quota.Parse(text)
	return checkedQuota(q, err)
}

// QuotaFrom reads a quota from a decoded tree. The error is as ParseQuota's.
func QuotaFrom(tree any) (*quota.Quota, error) {
	q, err := quota.From(tree)
	return checkedQuota(q, err)
}

func checkedQuota(q quota.Quota, err error) (*quota.Quota, error) {
	if err == nil && q.Then == quota.ThenMax {
		var most Amount
		if most, err = ParseAmount(q.Max); err == nil && most.None() {
			err = &invalid.Error{Value: q.Max, Msg: "no rate", Remedy: "write one such as 5mbit, or tell to limit nothing"}
		}
		err, q.Max = invalid.InField("then.max", err), most.Compact()
	}
	if err != nil {
		return nil, invalid.Within("quota", err)
	}
	return &q, nil
}

func writeQuota(q *quota.Quota) string {
	if q == nil {
		return ""
	}
	return q.String()
}

// Throttled returns the max on a link of a workload that has reached its quota, 0 if it keeps
// the one it has. What is blocked has the least rate that there is: no backend refuses all
// packets of a class.
func Throttled(q quota.Quota, capacity Rate) Rate {
	switch q.Then {
	case quota.ThenMax:
		most, _ := ParseAmount(q.Max) // was read before
		return max(most.Of(capacity), MinRate)
	case quota.ThenBlock:
		return MinRate
	}
	return 0
}

// checkQuota reports a quota that a reservation makes impossible: it is held by its interval,
// which no max shortens.
func (p Policy) checkQuota() error {
	if p.Quota == nil || p.Quota.Then == quota.ThenTell || p.Reserve.None() {
		return nil
	}
	return &invalid.Error{Field: "quota", Value: p.Quota.String(), Msg: "a reservation is held whatever its quota", Remedy: "write then tell, or a min in the place of reserve"}
}
