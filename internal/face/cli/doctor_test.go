// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"weir/internal/host/doctor"
	"weir/internal/test/goldentest"
)

func TestRenderDoctor(t *testing.T) {
	goldentest.Check(t, "testdata/doctor.golden", renderDoctor([]doctor.Finding{
		{Level: doctor.OK, Check: "kernel", Seen: "Linux 7.3.0"},
		{Level: doctor.Fails, Check: "link", Seen: "eth0: root qdisc fq 8001: was set by another program", Remedy: "find out which"},
		{Level: doctor.Warning, Check: "mark", Seen: "calico is here, which may use 0xffff0000", Remedy: "mark_mask: 0xffff"},
		{Level: doctor.Unknown, Check: "limits", Seen: "kernel.x: permission denied", Remedy: "run weir doctor as root"},
	}))
}
