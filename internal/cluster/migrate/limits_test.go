// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"math"
	"testing"
)

func TestAPartIsHeldToWhatWasAnnounced(t *testing.T) {
	const mib = 1 << 20
	o := MoveSpec{Container: Container{MemoryBytes: 100 * mib, LayerBytes: 10 * mib, ImageBytes: 1000 * mib,
		Volumes: []Volume{{Name: "a", Bytes: mib}, {Name: "b", Bytes: 2 * mib}}}}
	for _, c := range []struct {
		part Part
		mib  int64
	}{
		{Part{Kind: PartImage}, 2000}, {Part{Kind: PartExport}, 2020}, {Part{Kind: PartLayer}, 20}, {Part{PartVolume, "b"}, 4},
		{Part{PartVolume, "not announced"}, 0}, {Part{Kind: PartCheckpoint}, 200}, {Part{Kind: PartMemory}, 200}, {Part{Kind: PartArchive}, 226},
		{Part{Kind: "made up"}, 0},
	} {
		if got := o.Limit(c.part); got != (c.mib+512)*mib {
			t.Errorf("%s: %d MiB, want %d and 512", c.part, got/mib, c.mib)
		}
	}
	for _, made := range []int64{math.MaxInt64, math.MinInt64, -1} {
		o := MoveSpec{Container: Container{MemoryBytes: made, LayerBytes: made, ImageBytes: made, Volumes: []Volume{{Name: "a", Bytes: made}}}}
		for _, kind := range []PartKind{PartImage, PartExport, PartLayer, PartCheckpoint, PartArchive} {
			if got := o.Limit(Part{Kind: kind}); got < growthBytes || got > 1<<53 {
				t.Errorf("%s of %d bytes: %d", kind, made, got)
			}
		}
	}
}
