// SPDX-License-Identifier: Apache-2.0

package reload

import "log/slog"

// Accept has the configuration in force kept, for a start at which the file is wrong. accepted may
// be nil: then it is not kept.
func Accept(accepted func() error, log *slog.Logger) {
	if accepted == nil {
		return
	}
	if err := accepted(); err != nil {
		log.Warn("the configuration in force is not kept for a start with a wrong file", "err", err)
	}
}
