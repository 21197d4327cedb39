// SPDX-License-Identifier: Apache-2.0

package rest

import "net/http"

// IfRefused serves a request, and calls refused if the answer is a refusal.
func IfRefused(h http.Handler, w http.ResponseWriter, r *http.Request, refused func()) {
	out := &status{ResponseWriter: w}
	h.ServeHTTP(out, r)
	if out.code >= http.StatusBadRequest && out.code < http.StatusInternalServerError {
		refused()
	}
}

// status notes the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements http.ResponseWriter.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the writer below, for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }
