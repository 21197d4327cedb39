// SPDX-License-Identifier: Apache-2.0

// Package localhttp asks a daemon of this host for JSON, at its socket. Example:
//
//	ok, err := localhttp.Get(ctx, dial, "/1.0/instances", &answer) // ok is false if it has no such thing
//
// It is for the few questions for which a daemon's client is not worth what that links.
package localhttp

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
)

// most is how much of an answer is read, in bytes.
const most = 64 << 20

// Get asks for what is at path, and reads it into answer. It says whether the daemon has that: with
// any status but 200 it has not. The error is about the connection or about what cannot be read.
func Get(ctx context.Context, dial func(context.Context) (net.Conn, error), path string, answer any) (bool, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return false, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, nil
	}
	return true, json.NewDecoder(io.LimitReader(resp.Body, most)).Decode(answer)
}
