// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
)

const (
	askTimeout = 15 * time.Second
	maxAnswer  = 1 << 20
)

// ErrUnreachable is wrapped where the manager could not be asked, as opposed to what
// it answers (*refusal.Error).
var ErrUnreachable = errors.New("the manager cannot be reached")

// Manager is a manager and a way to ask it.
type Manager struct {
	Address string // host:port
	HTTP    *http.Client
}

// ManagerAt returns a manager that is asked over TLS.
func ManagerAt(address string, cfg *tls.Config) Manager {
	return Manager{Address: address, HTTP: httpClient(cfg)}
}

// Ask makes one request to a manager. What the manager refuses is a *refusal.Error; the
// error wraps ErrUnreachable if there was no answer.
func Ask[T any](ctx context.Context, m Manager, method, path string, body any) (T, error) {
	var out T
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return out, err
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "https://"+m.Address+path, payload)
	if err != nil {
		return out, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.HTTP.Do(req)
	if err != nil {
		var about *url.Error
		if errors.As(err, &about) {
			err = about.Err
		}
		if errors.Is(err, pki.ErrOtherManager) {
			return out, &refusal.Error{Kind: refusal.Denied, Field: "token", Msg: err.Error() + " (" + m.Address + ")", Remedy: "make one there: weir manager token create"}
		}
		return out, fmt.Errorf("%w at %s: %w", ErrUnreachable, m.Address, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return out, fmt.Errorf("%w at %s: %w", ErrUnreachable, m.Address, err)
	}
	if resp.StatusCode >= 300 {
		var p api.ProblemDetails
		if json.Unmarshal(text, &p) != nil {
			return out, &refusal.Error{Kind: api.KindOf(resp.StatusCode), Msg: fmt.Sprintf("%s answered %s; is it a Weir manager?", m.Address, resp.Status)}
		}
		return out, p.AsError(resp.StatusCode)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("answer of the manager at %s cannot be read: %w", m.Address, err)
	}
	return out, nil
}

func httpClient(cfg *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, TLSHandshakeTimeout: 5 * time.Second,
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2}}
}
