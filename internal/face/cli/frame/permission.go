// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"weir/internal/api"
)

// access holds the facts that decide whether a user can open the socket.
type access struct {
	user   string   // who asks
	group  string   // whom the socket belongs to, "" if that cannot be seen
	listed []string // groups that the user database gives the user
	view   string   // whom the socket for looking belongs to, "" if there is none
}

// socketRemedy returns what a user who may not open the socket has to do.
func socketRemedy(socket string) string {
	ac := access{user: "USER"}
	if u, err := user.Current(); err == nil {
		ac.user = u.Username
		if gids, err := u.GroupIds(); err == nil {
			ac.listed = groupNames(gids)
		}
	}
	ac.group, ac.view = groupOf(socket), groupOf(api.ViewSocket(socket))
	return ac.remedy()
}

// groupOf returns the group of a file, "" if that cannot be seen.
func groupOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return groupNames([]string{strconv.FormatUint(uint64(st.Gid), 10)})[0]
}

func (ac access) remedy() string {
	group := ac.group
	switch {
	case group == "root":
		return "it belongs to root alone; run: sudo systemd-sysusers, sudo systemctl restart weir, " +
			"sudo usermod -aG weir " + ac.user + ", then log in again"
	case group == "":
		group = "weir"
	}
	for _, mine := range []string{group, ac.view} {
		if mine != "" && slices.Contains(ac.listed, mine) {
			return "you are in group " + mine + ", but were not when you logged in; log in again (or run: newgrp " + mine + ")"
		}
	}
	remedy := "you are not in group " + group + "; run: sudo usermod -aG " + group + " " + ac.user + ", then log in again"
	if ac.view != "" && ac.view != "root" {
		remedy += " (group " + ac.view + " is enough to look)"
	}
	return remedy
}

// groupNames returns the names of groups; one without a name keeps its number.
func groupNames(gids []string) []string {
	names := slices.Clone(gids)
	for i, gid := range gids {
		if g, err := user.LookupGroupId(gid); err == nil {
			names[i] = g.Name
		}
	}
	return names
}
