// SPDX-License-Identifier: Apache-2.0

package dockerapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"weir/internal/core/bound"
)

// TestEndlessAnswer: an engine that does not end its list, or an event, is refused, not read on.
func TestEndlessAnswer(t *testing.T) {
	const begun = `{"Labels":{"a":"`
	var sent atomic.Int64
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(q.URL.Path, "/json"):
			fmt.Fprint(w, "["+begun)
		case strings.HasSuffix(q.URL.Path, "/events"):
			for range 3 { // whole ones, of more than one may have together
				fmt.Fprintf(w, `{"Type":"container","Action":"start","Actor":{"ID":"a","Attributes":{"b":%q}}}`+"\n", strings.Repeat("x", bound.Engine/2))
			}
			fmt.Fprint(w, begun)
		default:
			return
		}
		for block := strings.Repeat("x", 1<<20); ; sent.Add(1 << 20) {
			if _, err := fmt.Fprint(w, block); err != nil || sent.Load() > 8*bound.Engine {
				return
			}
		}
	}))
	defer served.Close()
	refused := func(err error) bool {
		var over *bound.Error
		return errors.As(err, &over) && over.Max == bound.Engine
	}
	c, err := New("tcp://" + served.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.ContainerList(t.Context(), container.ListOptions{}); !refused(err) {
		t.Errorf("%v", err)
	}
	told, errs := c.Events(t.Context(), events.ListOptions{})
	for seen := 0; ; {
		select {
		case <-told:
			seen++
			continue
		case err := <-errs:
			if seen != 3 || !refused(err) {
				t.Errorf("%v after %d events", err, seen)
			}
		case <-time.After(30 * time.Second):
			t.Error("the events do not end")
		}
		break
	}
	if read := sent.Load(); read > 4*bound.Engine {
		t.Errorf("%d MB are read", read>>20)
	}
}

// TestArchivesHaveNoLines: what an engine sends that is no JSON is as long as it is.
func TestArchivesHaveNoLines(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-tar")
		for block, n := make([]byte, 1<<20), 0; n < bound.Engine+2<<20; n += len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer served.Close()
	c, err := New("tcp://" + served.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	archive, err := c.ContainerExport(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if n, err := io.Copy(io.Discard, archive); err != nil || n < bound.Engine+2<<20 {
		t.Errorf("%d bytes: %v", n, err)
	}
}
