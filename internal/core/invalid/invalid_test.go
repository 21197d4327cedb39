// SPDX-License-Identifier: Apache-2.0

package invalid

import (
	"errors"
	"testing"
)

func TestInFieldLeavesOthersAlone(t *testing.T) {
	if err := InField("min", nil); err != nil {
		t.Errorf("InField of nil is %v", err)
	}
	other := errors.New("something else")
	if err := InField("min", other); err != other { //nolint:errorlint // it has to be the same error, not one that wraps it
		t.Errorf("InField changed %v into %v", other, err)
	}
	bare := &Error{Value: "x", Msg: "wrong"}
	if got := InField("max", bare).Error(); got != `max "x": wrong` || bare.Field != "" {
		t.Errorf("InField gave %q and left the field %q in the original", got, bare.Field)
	}
}
