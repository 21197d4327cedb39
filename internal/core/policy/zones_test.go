// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/internal/core/bound"
)

// TestManyZones: what is written of as many zones as there may be, with the longest names and
// values, can be read again. More are refused by their number.
func TestManyZones(t *testing.T) {
	var parts []string
	for i := range bound.Zones + 1 {
		parts = append(parts, fmt.Sprintf("z%014d weight 10000 min 99.9999%% max 999.999999gbit", i))
	}
	var c, again Change
	if err := c.Put("zones", strings.Join(parts[:bound.Zones], ";")); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil || json.Unmarshal(text, &again) != nil || again.Readable() != nil || len(text) > bound.Policy {
		t.Errorf("%d bytes, %v, %v", len(text), err, again.Readable())
	}
	short := make([]string, bound.Policy/20)
	for i := range short {
		short[i] = fmt.Sprintf("z%d min 1%% max 1M", i)
	}
	if err := c.Put("zones", strings.Join(short, ";")); err == nil || !strings.Contains(err.Error(), "3276 zones, 256 are the most; write fewer") {
		t.Errorf("%.200v", err)
	}
}
