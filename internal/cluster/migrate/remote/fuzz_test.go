// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzCall sends any body to any verb: the helper answers with a status of its own, and
// never takes more of the body than a call may have.
func FuzzCall(f *testing.F) {
	text, err := json.Marshal(Call{Step: "freeze", Order: &order})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("do", text)
	f.Add("facts", []byte("{}"))
	f.Add("send", []byte(`{"part":{"kind":"layer"},"order":{"lease_ns":-1}}`))
	f.Add("receive", append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	f.Add("receive", []byte{255, 255, 255, 255, '{', '}'})
	for _, text := range boundtest.Texts(bound.Call, `{"order":`, `{"order":{"container":{"volumes":[`) {
		f.Add("do", []byte(text))
	}
	f.Fuzz(func(t *testing.T, verb string, body []byte) {
		boundtest.Hold(t, func() {
			r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.SetPathValue("verb", verb)
			w := httptest.NewRecorder()
			NewHelper(&engine{part: "x"}, anything{}, 0, slog.New(slog.DiscardHandler)).serve(w, r)
			switch w.Code {
			case http.StatusOK, http.StatusBadRequest, http.StatusConflict, http.StatusInternalServerError:
			default:
				t.Errorf("verb %q: status %d", verb, w.Code)
			}
			if in, err := Read(httptest.NewRequest(http.MethodPost, "/", io.LimitReader(bytes.NewReader(body), MaxCall)), Verb(verb), MaxCall); err == nil {
				if again, err := json.Marshal(in); err == nil && len(again) > 2*len(body)+1000 {
					t.Errorf("a call of %d bytes out of %d", len(again), len(body))
				}
			}
		})
	})
}
