// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadOnly(t *testing.T) {
	const maps = `00400000-01f58000 r-xp 00000000 fe:00 9987942                            /usr/bin/weir
01f58000-03aed000 r--p 01b58000 fe:00 9987942                            /usr/bin/weir
03aed000-03d27000 rw-p 036ed000 fe:00 9987942                            /usr/bin/weir
03d27000-03d90000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r--p 00000000 fe:00 1                          /usr/bin/weir-lab
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
`
	list, err := readOnly(strings.NewReader(maps), "/usr/bin/weir")
	want := []addresses{{0x400000, 0x1f58000}, {0x1f58000, 0x3aed000}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%x, %v; want %x", list, err, want)
	}
	if _, err := readOnly(strings.NewReader("x-y r--p 0 0 0 /usr/bin/weir\n"), "/usr/bin/weir"); err == nil {
		t.Error("addresses that are no numbers are taken")
	}
}

// TestRelease: the process has less of its file in memory, and goes on.
func TestRelease(t *testing.T) {
	resident := func() int {
		t.Helper()
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(text)
		kB, err := strconv.Atoi(string(found[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kB
	}
	before := resident()
	if err := Release(unix.MADV_RANDOM, unix.MADV_PAGEOUT); err != nil {
		t.Fatal(err)
	}
	if after := resident(); after > before/2 {
		t.Errorf("%d kB of the file are resident, %d kB before", after, before)
	}
}
