// SPDX-License-Identifier: Apache-2.0

package server

import (
	"os"
	"testing"

	"weir/internal/face/server/page"
	"weir/internal/face/server/page/pagetest"
)

// TestWhatRefusalsCost: a request that is refused because of who asks costs little, on every
// route of the view socket and of the page, and none of its body is read.
func TestWhatRefusalsCost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a socket to a group")
	}
	s, _ := startWith(t, demo(), Options{Group: "weir", ViewGroup: viewGroup, Web: page.Config{Listen: []string{"127.0.0.1:0"}, Key: t.TempDir() + "/web.key"}})
	pagetest.WhatRefusalsCost(t, s.rest.Reading(s.opts.Socket, s.opts.Group), s.page.Handler())
}
