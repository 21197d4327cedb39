// SPDX-License-Identifier: Apache-2.0

package node

import "weir/internal/cluster/warrant"

// A refusal with its reason is warrant's, which the helper refuses by too.
type denied = warrant.Denied

var deny = warrant.Deny

// Why a call of another node, or a message in the manager's name, was refused.
const (
	whyStranger    = warrant.WhyStranger
	whyForged      = warrant.WhyForged
	whyForeign     = warrant.WhyForeign
	whyExpired     = warrant.WhyExpired
	whyReplayed    = warrant.WhyReplayed
	whyAltered     = warrant.WhyAltered
	whyNotTarget   = warrant.WhyNotStep
	whyNotAccepted = warrant.WhyNotAccepted
	whyUnknown     = warrant.WhyUnknown
	whyTooMany     = warrant.WhyTooMany
	whySubject     = warrant.WhySubject
)
