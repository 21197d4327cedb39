// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/host/doctor"
)

// maskChoice chooses the bits of mark_mask: auto, once for the life of an agent: other bits are
// another qdisc.
type maskChoice struct {
	once sync.Once
	mask plan.Mask
	log  *slog.Logger
}

// into gives a configuration the bits, if it leaves them to the agent.
func (m *maskChoice) into(c *config.Config) {
	if !c.MarkAuto {
		return
	}
	m.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), markTimeout)
		defer cancel()
		mask, why := doctor.ChooseMask(ctx, doctor.KeptMask(c.StateDir))
		m.mask = mask
		if why.Seen != "" {
			m.log.Warn("no bits of the mark are chosen", "why", why.Seen, "remedy", why.Remedy)
		} else {
			m.log.Info("bits of the mark are chosen that no other program here uses", "mask", fmt.Sprintf("%#x", uint32(mask)))
		}
		if err := doctor.KeepMask(c.StateDir, mask); err != nil {
			m.log.Warn("the next agent may choose other bits of the mark", "err", err)
		}
	})
	c.MarkMask = uint32(m.mask)
}
