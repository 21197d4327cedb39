// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"weir/internal/agent/decide/ceiling"
	"weir/internal/api"
	"weir/internal/policy"
)

// askOf returns what was asked for a workload or group as an ask.
func askOf(c policy.Change) ceiling.Ask {
	return ceiling.Ask{Policy: c, Origin: OriginAsked, Called: func(field string) string { return "asked " + field }}
}

// cutTexts returns a sentence for each cut.
func (v Verdict) cutTexts() (texts []string) {
	for _, c := range v.Cuts {
		texts = append(texts, c.Text)
	}
	return texts
}

// CutViews returns the cuts as the API shows them.
func (v Verdict) CutViews() (views []api.PolicyCut) {
	for _, c := range v.Cuts {
		views = append(views, api.PolicyCut{Field: c.Field, Asked: c.Asked, Given: c.Given, Origin: c.Origin, Reason: c.Why})
	}
	return views
}

// AsksView returns what was asked for the workload or group as the API shows it, nil if nothing was.
func (v Verdict) AsksView() map[string]string { return orNone(v.asks.Texts()) }
