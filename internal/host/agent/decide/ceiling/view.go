// SPDX-License-Identifier: Apache-2.0

package ceiling

import "weir/internal/api"

// Texts returns a sentence for each cut.
func Texts(cuts []Cut) (texts []string) {
	for _, c := range cuts {
		texts = append(texts, c.Text)
	}
	return texts
}

// Views returns cuts as the API shows them.
func Views(cuts []Cut) (views []api.PolicyCut) {
	for _, c := range cuts {
		views = append(views, api.PolicyCut{Field: c.Field, Asked: c.Asked, Given: c.Given, Origin: c.Origin, Reason: c.Why})
	}
	return views
}
