// SPDX-License-Identifier: Apache-2.0

package nsthread

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
)

// where is the network namespace of the calling thread.
func where(t *testing.T) string {
	t.Helper()
	ns, err := netns.Get()
	if err != nil {
		t.Error(err) // Fatal is for the test's own goroutine
		return ""
	}
	defer ns.Close()
	return ns.UniqueId()
}

func TestThereAndBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: making network namespaces needs root")
	}
	home := where(t)
	var born string
	made, err := New(func() error { born = where(t); return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	if born == home || born != made.UniqueId() {
		t.Errorf("made %s in %s, the test is in %s", made.UniqueId(), born, home)
	}
	// Many times, so that threads that serve again would show where they are.
	failure := errors.New("of the function")
	for range 100 {
		if err := In(made, func() error {
			if at := where(t); at != born {
				t.Errorf("in %s, want %s", at, born)
			}
			return failure
		}); !errors.Is(err, failure) {
			t.Fatalf("%v, want what the function returned", err)
		}
		done := make(chan string)
		go func() { done <- where(t) }()
		if at := <-done; at != home {
			t.Fatalf("another goroutine is in %s, not in %s", at, home)
		}
	}
	// A socket stays where it was opened.
	var there net.Listener
	if err := In(made, func() (err error) { there, err = net.Listen("unix", "@weir-nsthread-test"); return err }); err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if conn, err := net.Dial("unix", "@weir-nsthread-test"); err == nil {
		conn.Close()
		t.Error("a socket of the namespace is reached from outside")
	}
}

func TestWhatFails(t *testing.T) {
	if err := InPath("/proc/1/ns/none", nil); err == nil || !strings.Contains(err.Error(), "/proc/1/ns/none") {
		t.Errorf("no such namespace: %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("skipped the rest: making network namespaces needs root")
	}
	failure := errors.New("of the function")
	made, err := New(func() error { return failure })
	if !errors.Is(err, failure) || made.IsOpen() {
		t.Errorf("%v, open %v", err, made.IsOpen())
	}
}
