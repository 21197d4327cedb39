// SPDX-License-Identifier: Apache-2.0

package localtime

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// zoneFile makes a file of a zone that is so many hours east of UTC.
func zoneFile(t *testing.T, path string, hours byte) {
	t.Helper()
	head := make([]byte, 44)
	copy(head, "TZif")
	head[39], head[43] = 1, 2 // one type, a name of two bytes
	seconds := int(hours) * 3600
	body := []byte{byte(seconds >> 24), byte(seconds >> 16), byte(seconds >> 8), byte(seconds), 0, 0, 'X', 0}
	if err := os.WriteFile(path, append(head, body...), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestWall(t *testing.T) {
	if zone, ok := os.LookupEnv("TZ"); ok { // also put back by Setenv
		t.Setenv("TZ", zone)
		os.Unsetenv("TZ")
	}
	dir := t.TempDir()
	link, one, two := filepath.Join(dir, "localtime"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
	zoneFile(t, one, 1)
	zoneFile(t, two, 2)
	point := func(to string) {
		os.Remove(link)
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	point(one)
	z := at(link, time.FixedZone("X", 3600))
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	shows := func(what, want string) {
		t.Helper()
		if got := z.Wall(now).Format("15:04"); got != want {
			t.Errorf("%s the clock shows %s, want %s", what, got, want)
		}
	}
	zone := z.Wall(now).Location()
	shows("at first", "13:00")
	if z.Wall(now).Location() != zone {
		t.Error("the zone is another one though nothing has changed")
	}
	point(two)
	shows("with another file", "14:00")
	point(filepath.Join(dir, "none"))
	shows("without a file", "14:00")
	if err := os.WriteFile(filepath.Join(dir, "none"), []byte("TZif"), 0o644); err != nil {
		t.Fatal(err)
	}
	shows("with half a file", "14:00")
	point(one)
	shows("with the first one again", "13:00")
	if got := z.Wall(time.Now()); got != got.Round(0) {
		t.Error("the clock's time has a part that does not follow when it is set")
	}
}
