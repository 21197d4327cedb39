// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"weir/internal/face/cli/frame"
	"weir/internal/host/agent"
	"weir/internal/host/dataplane"
)

// Codes are the exit codes of errors of the agent and the data plane, for programs that have them.
var Codes = map[error]int{
	dataplane.ErrNoDevice:  frame.ExitUsage,
	dataplane.ErrNoSupport: frame.ExitNoAgent,
	dataplane.ErrPrivilege: frame.ExitNotPermitted,
	agent.ErrNoLink:        frame.ExitUsage,
}
