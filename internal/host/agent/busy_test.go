// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/api/rest"
	"weir/internal/core/refusal"
)

// An agent that is kept from a request, by bringing up its links on a host without a free
// CPU, says so while the server can still write: later the connection ends without a word.
func TestBusyAgentAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{loop: newLoop()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := a.Status(ctx)
		var busy *refusal.Error
		if !errors.As(err, &busy) || busy.Kind != refusal.Busy || busy.Remedy == "" {
			t.Errorf("got %v, want status 503 and a remedy", err)
		}
		if waited := time.Since(begin); waited >= rest.RequestTimeout {
			t.Errorf("it answers after %v, and the server writes for %v", waited, rest.RequestTimeout)
		}
	})
}
