// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"strings"
	"testing"
)

func TestAccessRemedy(t *testing.T) {
	for _, tt := range []struct {
		name string
		ac   access
		want string
	}{
		{"not in the group", access{"eve", "weir", []string{"eve"}, ""}, "you are not in group weir; run: sudo usermod -aG weir eve, then log in again"},
		{"since the login", access{"eve", "weir", []string{"eve", "weir"}, ""}, "log in again (or run: newgrp weir)"},
		{"no such group when the agent began", access{"eve", "root", []string{"eve"}, ""}, "sudo systemd-sysusers"},
		{"socket out of sight", access{"eve", "", nil, ""}, "sudo usermod -aG weir eve"},
		{"looking is enough", access{"eve", "weir", []string{"eve"}, "weir-view"}, "then log in again (group weir-view is enough to look)"},
		{"may look since the login", access{"eve", "weir", []string{"weir-view"}, "weir-view"}, "newgrp weir-view"},
		{"another group", access{"eve", "netops", nil, ""}, "sudo usermod -aG netops eve"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.ac.remedy(); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}
