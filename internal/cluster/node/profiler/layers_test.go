// SPDX-License-Identifier: Apache-2.0

package profiler

import (
	"context"
	"errors"
	"testing"

	"weir/internal/cluster/profile"
)

// TestLayersOneAtATime: each look is at the container that has waited longest, one
// look at a time; a container that is gone is forgotten.
func TestLayersOneAtATime(t *testing.T) {
	list := []profile.Container{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	sizes := map[string]uint64{"a": 10, "b": 20}
	begun, may := make(chan string), make(chan struct{})
	measure := func(_ context.Context, id string) (uint64, error) {
		begun <- id
		<-may
		if size, ok := sizes[id]; ok {
			return size, nil
		}
		return 0, errors.New("gone")
	}
	var l layers
	for _, want := range []string{"a", "b", "c"} {
		l.look(list, measure)
		if id := <-begun; id != want {
			t.Errorf("looked at %s, want %s", id, want)
		}
		l.look(list, measure) // one is under way
		may <- struct{}{}
		l.done.Wait()
	}
	l.look(list, func(context.Context, string) (uint64, error) { panic("all are known for now") })
	l.close()
	if l.size("a") != 10 || l.size("b") != 20 || l.size("c") != 0 {
		t.Errorf("%+v", l.known)
	}
	l.look(list[1:], nil)
	if l.size("a") != 0 || l.size("b") != 20 {
		t.Errorf("without a: %+v", l.known)
	}
}
