// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	"weir/internal/core/plan"
)

// ChooseMask returns bits of the mark that nothing on this host writes or compares, for mark_mask:
// auto: the kept ones as long as they are such, else the longest run of them. The mask is 0, and
// the Trouble says why, if there are none, or if it cannot be told.
func ChooseMask(ctx context.Context, kept plan.Mask) (plan.Mask, Trouble) {
	return Host{Marks: lookMarks(ctx)}.choose(kept)
}

func (h Host) choose(kept plan.Mask) (plan.Mask, Trouble) {
	const without = "; class and queue are carried without the mark"
	if len(h.Marks.Unread) > 0 {
		return 0, Trouble{"mark_mask", fmt.Sprintf("auto: it cannot be told which bits of the mark others use%s: %v", without, h.Marks.Unread[0]),
			"see that the agent can run nft or iptables-save, or name bits"}
	}
	taken := h.takenMarks()
	if kept != 0 && taken&uint32(kept) == 0 {
		return kept, Trouble{}
	}
	if free := longestRun(^taken); free.Check() == nil {
		return free, Trouble{}
	}
	return 0, Trouble{"mark_mask", fmt.Sprintf("auto: others write or compare bits %#x of the mark, which leaves no run of %d%s", taken, plan.LeastMaskBits, without),
		"give rules that set or compare the whole mark a mask (MARK --set-xmark VALUE/MASK, meta mark set meta mark and ... or ...); the agent chooses when it is started again"}
}

// autoTrouble says what is wrong with bits that the agent has chosen, or with having none.
func (h Host) autoTrouble(mask plan.Mask) Trouble {
	free, why := h.choose(mask)
	clash := h.clashText(mask)
	switch {
	case mask == 0 && free != 0:
		return Trouble{"mark_mask", fmt.Sprintf("auto: bits %#x of the mark are free by now, and the agent has none", uint32(free)), "start the agent again"}
	case mask == 0 || clash == "" && len(h.Marks.Unread) == 0:
		return why
	case clash == "":
		return Trouble{"mark_mask", h.unreadText(mask), why.Remedy}
	case free == 0:
		return Trouble{"mark_mask", clash, why.Remedy}
	}
	return Trouble{"mark_mask", clash, fmt.Sprintf("start the agent again: it takes %#x then, enough for %d workloads at once", uint32(free), free.MaxClasses()-1)}
}
