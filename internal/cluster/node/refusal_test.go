// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/refusal"
)

// refuses is an agent that refuses each change.
type refuses struct {
	api.Agent
	err error
}

func (r refuses) Set(context.Context, string, api.PolicyChange, bool) (api.ChangeResult, error) {
	return api.ChangeResult{}, r.err
}

// TestOnlyWantOfRoomNeedsAPlace: the manager is asked for a place, or the user told why it was
// not, if the link has no room; not if another node would refuse the change as well, and not
// for a dry run. The node of withManager is missing, so that asking would panic.
func TestOnlyWantOfRoomNeedsAPlace(t *testing.T) {
	min := apitest.Change("min", "9mbit")
	for _, tt := range []struct {
		kind   refusal.Kind
		change api.PolicyChange
		dry    bool
		asks   bool
	}{
		{refusal.NoRoom, min, false, true},
		{refusal.NoRoom, apitest.Change("reserve", "9mbit"), false, true},
		{refusal.NoRoom, min, true, false},
		{refusal.NoRoom, apitest.Change("group", "tenant"), false, false},
		{refusal.NotHeld, min, false, false},
		{refusal.Conflict, min, false, false},
		{refusal.Invalid, min, false, false},
	} {
		answer := &refusal.Error{Kind: tt.kind, Msg: "no", Remedy: "less"}
		_, err := (&behind{refuses{err: answer}, &Member{}}).Set(t.Context(), "web", tt.change, tt.dry)
		if told := strings.Contains(err.Error(), "no other node was asked"); told != tt.asks || answer.Remedy != "less" || refusal.KindOf(err) != tt.kind {
			t.Errorf("%s, %+v, dry run %v, no manager: %v", tt.kind, tt.change, tt.dry, err)
		}
		if tt.asks {
			continue
		}
		if _, err := (&withManager{refuses{err: answer}, nil}).Set(t.Context(), "web", tt.change, tt.dry); !errors.Is(err, answer) {
			t.Errorf("%s, %+v, dry run %v: %v", tt.kind, tt.change, tt.dry, err)
		}
	}
}
