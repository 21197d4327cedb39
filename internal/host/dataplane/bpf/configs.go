// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
)

// configs reads what is configured of each class of a state, in its order. Classes have the lowest
// numbers that are free, so that one request for all numbers up to the highest costs less than one
// for each class.
func (o *object) configs(state plan.State) ([]qdiscWeirClassConfig, error) {
	var last plan.ClassID
	for i := range state.Classes {
		last = max(last, state.Classes[i].ID)
	}
	list := make([]qdiscWeirClassConfig, len(state.Classes))
	if int(last) > 4*len(list) {
		return list, o.configsByNumber(state, list)
	}
	if len(o.written) <= int(last) {
		o.written, o.numbers = make([]qdiscWeirClassConfig, last+1), make([]uint32, last+1)
	}
	all := o.written[:last+1]
	n, err := o.classes.BatchLookup(new(ebpf.MapBatchCursor), o.numbers[:last+1], all, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) { // that is the end of the map
		return list, err
	}
	if n < len(all) {
		return list, o.configsByNumber(state, list)
	}
	for i := range list {
		list[i] = all[state.Classes[i].ID]
	}
	return list, nil
}

func (o *object) configsByNumber(state plan.State, list []qdiscWeirClassConfig) error {
	for i := range list {
		if err := o.classes.Lookup(uint32(state.Classes[i].ID), &list[i]); err != nil {
			return err
		}
	}
	return nil
}
