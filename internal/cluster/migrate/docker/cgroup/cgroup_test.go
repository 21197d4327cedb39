// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"encoding/binary"
	"strings"
	"testing"
)

// message is one of protocol buffers.
type message []byte

func (m message) number(id, value uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, id<<3), value)
}

func (m message) bytes(id uint64, value []byte) message {
	return append(binary.AppendUvarint(binary.AppendUvarint(m, id<<3|2), uint64(len(value))), value...)
}

func (m message) text(id uint64, value string) message { return m.bytes(id, []byte(value)) }

// imageOf is CRIU's image of a container in a cgroup, with a cgroup of its own making below, and
// of a process outside.
func imageOf(group string) []byte {
	member := func(path string, prefix int) message {
		m := message{}.text(1, "").text(2, path)
		if prefix > 0 {
			m = m.number(3, uint64(prefix))
		}
		return m
	}
	dir := message{}.text(1, strings.TrimPrefix(group, "/")).bytes(2, message{}.text(1, "sub")).
		bytes(3, message{}.text(1, "memory.max").text(2, "max")).bytes(4, message{}.number(1, 0o755).number(2, 0).number(3, 0))
	entry := message{}.
		bytes(1, message{}.number(1, 1).bytes(2, member("/", 0))).
		bytes(1, message{}.number(1, 2).bytes(2, member(group, len(group)))).
		bytes(1, message{}.number(1, 3).bytes(2, member(group+"/sub", len(group)))).
		bytes(2, message{}.text(1, "").bytes(2, dir).number(3, 0))
	return append(binary.LittleEndian.AppendUint32([]byte("\x19\x43\x56\x54\x13\x07\x33\x59"), uint32(len(entry))), entry...)
}

// TestACheckpointGetsTheCgroupOfItsNewEngine: nodes may keep their containers in cgroups below
// different parents.
func TestACheckpointGetsTheCgroupOfItsNewEngine(t *testing.T) {
	was, is := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	for from, to := range map[string]string{
		"/docker/" + was:                         "/docker/" + is,
		"/machines/" + was:                       "/system.slice/docker-" + is + ".scope",
		"/system.slice/docker-" + was + ".scope": "/x/" + is,
	} {
		got, err := Move(imageOf(from), was, is, to)
		if err != nil || string(got) != string(imageOf(to)) {
			t.Errorf("%s to %s: %v\n%q, want\n%q", from, to, err, got, imageOf(to))
		}
		whole := imageOf(from)
		for cut := range whole {
			if _, err := Move(whole[:cut], was, is, to); err == nil {
				t.Errorf("%d of %d bytes are taken for an image", cut, len(whole))
			}
		}
	}
}

func TestWhereAnEngineKeepsAContainer(t *testing.T) {
	for want, c := range map[string]struct{ driver, parent string }{
		"/docker/1f":                         {"cgroupfs", ""},
		"/machines/a/1f":                     {"cgroupfs", "/machines/a"},
		"/system.slice/docker-1f.scope":      {"systemd", ""},
		"/a.slice/docker-1f.scope":           {"systemd", "a.slice"},
		"/a.slice/a-b.slice/docker-1f.scope": {"systemd", "a-b.slice"},
		"/docker-1f.scope":                   {"systemd", "-.slice"},
		"":                                   {"cgroupfs", "a"},
	} {
		if got := of(c.driver, c.parent, "1f"); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
