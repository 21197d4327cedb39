// SPDX-License-Identifier: Apache-2.0

package tlsfile_test

import (
	"strings"
	"testing"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/base/tlsfile/tlstest"
)

// TestTrouble: certificates are called out a while before they end, those of a short life later.
func TestTrouble(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for _, test := range []struct {
		life, age time.Duration
		want      string
	}{
		{365 * day, -time.Second, "is not valid before 2026-01-01T00:00:00Z"},
		{365 * day, 0, ""},
		{365 * day, 350 * day, ""},
		{365 * day, 352 * day, "ends 2027-01-01"},
		{365 * day, 366 * day, "has ended 2027-01-01"},
		{5 * day, 3 * day, ""},
		{5 * day, 4*day + time.Hour, "ends 2026-01-06"},
	} {
		l := tlsfile.Life{Begins: begin, Ends: begin.Add(test.life)}
		if got := l.Trouble(begin.Add(test.age)); !strings.HasPrefix(got, test.want) || got != "" && test.want == "" {
			t.Errorf("of %v after %v: %q, want %q", test.life, test.age, got, test.want)
		}
	}
}

func TestReadLife(t *testing.T) {
	files := tlstest.New(t, "ours").Issue(t, "agent")
	for path, authorities := range map[string]bool{files.Cert: false, files.CA: true} {
		l, err := tlsfile.ReadLife(path, authorities)
		if err != nil || l.Trouble(time.Now()) != "" || l.Trouble(l.Ends.Add(time.Second)) == "" {
			t.Errorf("%s: %+v, %v, %q", path, l, err, l.Trouble(time.Now()))
		}
	}
	if _, err := tlsfile.ReadLife(files.Key, false); err == nil || !strings.Contains(err.Error(), "holds none") {
		t.Errorf("a key: %v", err)
	}
}
