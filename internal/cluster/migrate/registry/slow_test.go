// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// TestASlowUploadHoldsNobodyUp: one upload of which a byte comes now and then, while
// old images are removed. Pushes go on, and so does the removal.
func TestASlowUploadHoldsNobodyUp(t *testing.T) {
	r, c, stop := open(t, t.TempDir())
	defer stop()
	r.opened = r.opened.Add(-time.Hour)
	c.pushImage("weir/move", "first", []byte("first"))
	at := c.do("POST", c.base+"/v2/weir/move/blobs/uploads/", "", nil, http.StatusAccepted).Header.Get("Location")
	before, _ := r.Traffic()
	from, slow := io.Pipe()
	defer slow.Close()
	q, err := http.NewRequest("PATCH", at, from)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if resp, err := http.DefaultClient.Do(q); err == nil {
			resp.Body.Close()
		}
	}()
	if _, err := slow.Write([]byte("a byte, and then none")); err != nil {
		t.Fatal(err)
	}
	for received, _ := r.Traffic(); received == before; received, _ = r.Traffic() {
		time.Sleep(time.Millisecond)
	}
	done := make(chan string, 2)
	go func() {
		if err := r.Expire(t.Context(), "weir/move", time.Hour); err != nil {
			t.Error(err)
		}
		if _, err := r.Collect(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		done <- "the removal of old images"
	}()
	time.Sleep(100 * time.Millisecond)
	go func() { c.pushImage("weir/move", "second", []byte("second")); done <- "another push" }()
	for range 2 {
		select {
		case what := <-done:
			t.Logf("%s has ended", what)
		case <-time.After(5 * time.Second):
			t.Fatal("a push or the removal of old images waits for a slow upload")
		}
	}
}
