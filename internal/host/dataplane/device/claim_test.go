// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"os"
	"sync"
	"testing"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
)

// One claim for each network namespace; it can be taken again once it is released,
// and leaves nothing behind.
func TestClaim(t *testing.T) {
	netnstest.Enter(t)
	opts := dataplane.Options{}
	claim, err := TakeClaim(opts)
	if err != nil {
		t.Fatal(err)
	}
	var used *InUseError
	if _, err := TakeClaim(opts); !errors.As(err, &used) {
		t.Fatalf("a second claim: %v", err)
	}
	if used.PID != os.Getpid() {
		t.Errorf("process %d has it, says the error, and it is %d", used.PID, os.Getpid())
	}
	path := claim.dir.Name()
	claim.Release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", path, err)
	}
	if claim, err = TakeClaim(opts); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	claim.Release()
}

// However claims and releases meet, one at a time has it.
func TestClaimsThatMeet(t *testing.T) {
	netnstest.Enter(t)
	inode, err := netnsInode("")
	if err != nil {
		t.Fatal(err)
	}
	var holders, taken int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 500 {
				claim, err := takeClaim(dataplane.Options{}, inode)
				var used *InUseError
				if errors.As(err, &used) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				holders, taken = holders+1, taken+1
				if holders > 1 {
					t.Error("two have the claim")
				}
				mu.Unlock()
				mu.Lock()
				holders--
				mu.Unlock()
				claim.Release()
			}
		})
	}
	all.Wait()
	if taken == 0 {
		t.Error("nobody ever had it")
	}
	t.Logf("taken %d times of 2,000", taken)
}
