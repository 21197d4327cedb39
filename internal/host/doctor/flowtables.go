// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"strings"
)

// flowtables returns the flow tables of nftables in the output of nft -j list ruleset, each with
// its devices: packets that one forwards pass by the way on which Weir marks them.
func flowtables(dump []byte) []string {
	var ruleset struct {
		Nftables []struct {
			Flowtable *struct {
				Family, Table, Name string
				Dev                 any
			} `json:"flowtable"`
		} `json:"nftables"`
	}
	if json.Unmarshal(dump, &ruleset) != nil { // which the reader of marks has said
		return nil
	}
	var found []string
	for _, entry := range ruleset.Nftables {
		if f := entry.Flowtable; f != nil {
			var devices []string
			switch dev := f.Dev.(type) { // one is a text, more are a list
			case string:
				devices = append(devices, dev)
			case []any:
				for _, d := range dev {
					devices = append(devices, fmt.Sprint(d))
				}
			}
			found = append(found, fmt.Sprintf("%s %s %s (%s)", f.Family, f.Table, f.Name, strings.Join(devices, ", ")))
		}
	}
	return found
}

func offloaded(h Host) []Finding {
	switch tables := h.Marks.Flowtables; {
	case len(tables) > 0:
		return warning("flowtable "+strings.Join(tables, "; ")+": packets that it forwards may pass by the kernel's qdiscs, where nothing divides them",
			"take the rules with flow add out of nftables for what is to be divided (nft list ruleset)")
	case len(h.Marks.Unread) > 0:
		return ok("whether flowtables forward packets is not known, see mark")
	}
	return ok("no flowtable of nftables forwards packets past the qdiscs")
}
