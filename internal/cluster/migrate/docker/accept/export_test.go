// SPDX-License-Identifier: Apache-2.0

package accept

// What every engine hides and protects, for the honest configuration of the tests.
var (
	CoreMasked   = coreMasked
	CoreReadonly = coreReadonly
)
