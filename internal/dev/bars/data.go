// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"

	"weir/internal/base/verdict"
)

// origin says where a figure comes from.
type origin struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Kernel string `json:"kernel"` // release, or the machine's name where no kernel is measured
}

// figure is a line of the data: the last verdict on a condition.
type figure struct {
	verdict.Verdict
	origin
}

// sameBar says whether two figures are of the same condition: of the same entry as it
// is written, so that a changed expectation has no figure until it is measured.
func (f figure) sameBar(other figure) bool {
	return f.File == other.File && f.Expect == other.Expect && f.Check == other.Check && f.Scheduler == other.Scheduler
}

// recorded reads the data, or what a run wrote.
func recorded(file string) ([]figure, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []figure
	for line := range bytes.Lines(text) {
		var f figure
		if err := json.Unmarshal(line, &f); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// record takes the verdicts of a run over into the data, instead of former ones on the
// same conditions.
func record(data, run string, how origin) error {
	all, err := recorded(data)
	if err != nil {
		return err
	}
	fresh, err := recorded(run)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		f.origin = how
		all = append(slices.DeleteFunc(all, f.sameBar), f)
	}
	slices.SortStableFunc(all, func(a, b figure) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Scheduler, b.Scheduler))
	})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, f := range all {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return os.WriteFile(data, out.Bytes(), 0o644)
}
