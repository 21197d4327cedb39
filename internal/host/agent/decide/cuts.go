// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide/ceiling"
)

// askOf returns what was asked for a workload or group as an ask.
func askOf(c policy.Change) ceiling.Ask {
	return ceiling.Ask{Policy: c, Origin: OriginAsked, Called: func(field string) string { return "asked " + field }}
}

// AsksView returns what was asked for the workload or group as the API shows it, nil if nothing
// was.
func (v Ruling) AsksView() map[string]string { return orNone(v.asks.Texts()) }
