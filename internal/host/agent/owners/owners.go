// SPDX-License-Identifier: Apache-2.0

// Package owners says whose the classes and quotas of a decision are, for what is counted: the
// ledger books bytes by the workload that a class belongs to.
//
// Example: web has class 3 and goes, and batch gets class 3. By Changed the agent reads class 3
// once more while it is web's, so that web has what it sent and batch begins at 0.
//
// It counts nothing itself.
package owners

import (
	"slices"

	"weir/internal/core/plan"
	"weir/internal/core/policy/quota"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/ledger"
	"weir/internal/host/dataplane"
	"weir/internal/host/discover"
)

// Of returns whose the classes of workloads are.
func Of(d decide.Decision) map[plan.ClassID]ledger.Owner {
	owners := make(map[plan.ClassID]ledger.Owner, len(d.Rulings))
	for _, v := range d.Rulings {
		if v.Steered {
			owners[v.Class] = ledger.Owner{Key: v.Key, Name: v.Name, Group: v.Policy.Group}
		}
	}
	return owners
}

// Quotas returns the quotas of workloads and groups, by key.
func Quotas(d decide.Decision) map[string]quota.Quota {
	quotas := map[string]quota.Quota{}
	for _, list := range [][]decide.Ruling{d.Rulings, d.Groups} {
		for i := range list {
			if v := &list[i]; v.Policy.Quota != nil {
				quotas[v.Key] = *v.Policy.Quota
			}
		}
	}
	return quotas
}

// Changed reports whether a class belongs to another workload after a decision than before it, or
// to none.
func Changed(before, after decide.Decision) bool {
	now := Of(after)
	for class, owner := range Of(before) {
		if now[class] != owner {
			return true
		}
	}
	return false
}

// Classes returns what a snapshot says of classes. Those that leave come first: a class that is
// there may have the number of one that has gone.
func Classes(s dataplane.LinkCounters, d decide.Decision) []ledger.Class {
	list := make([]ledger.Class, 0, len(s.Leaving)+len(s.Classes))
	for _, c := range s.Leaving {
		list = append(list, ledger.Class{ID: c.ID, Bytes: c.Bytes, Gone: c.Gone})
	}
	owners := Of(d)
	for id, c := range s.Classes {
		list = append(list, ledger.Class{ID: id, Owner: owners[id], Bytes: c.SentBytes})
	}
	return list
}

// Renamed returns the workloads that have other keys, by the former ones.
func Renamed(found []discover.Workload, moved map[string]string) map[string]ledger.Owner {
	keys := map[string]ledger.Owner{}
	for from, to := range moved {
		if i := slices.IndexFunc(found, func(w discover.Workload) bool { return w.Key == to }); i >= 0 {
			keys[from] = ledger.Owner{Key: to, Name: found[i].Name}
		}
	}
	return keys
}
