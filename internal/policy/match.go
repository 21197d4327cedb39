// SPDX-License-Identifier: Apache-2.0

package policy

// Match is one condition on a packet; all that it states must hold. See ParseMatch.
type Match struct{}
