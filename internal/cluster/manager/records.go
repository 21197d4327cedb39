// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/core/wire"
)

// The buckets of the database beside those of package membership.
const (
	bucketMoves   statedir.Bucket[moves.Move]          = "moves"
	bucketPlaces  statedir.Bucket[moves.RefusedMin]    = "places"
	bucketApplies statedir.Bucket[moves.PendingPolicy] = "applies"
	bucketOrders  statedir.Bucket[order]               = "orders"
)

var buckets = []string{string(bucketMoves), string(bucketPlaces), string(bucketApplies), string(bucketOrders)}

// metaSequence is the key in statedir.Meta of the last order's sequence.
const metaSequence = "sequence"

// change is a change of the database.
type change struct {
	statedir.Transaction
	orders []order // among the records: what goes to the bus once they are written
}

// order is a message on its way to the bus.
type order struct {
	Seq     uint64       `json:"seq"`
	Subject wire.Subject `json:"subject"`
	ID      string       `json:"id"` // for the bus
	Data    []byte       `json:"data"`
}
