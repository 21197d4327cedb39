// SPDX-License-Identifier: Apache-2.0

// Package claims is the DRA driver weir.dev: links as devices with a consumable bandwidth, and
// the mins that the scheduler has admitted.
package claims
