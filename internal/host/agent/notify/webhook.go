// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"weir/internal/base/tlsfile"
	"weir/internal/base/version"
	"weir/internal/config"
	"weir/internal/core/event"
)

// secretForm is what a secret begins with, and base64 follows. It is that of the Standard
// Webhooks (standardwebhooks.com), as the headers are, so that their libraries verify requests.
const secretForm = "whsec_"

// webhook posts events to a server.
type webhook struct {
	config.Webhook
	client http.Client
	tls    tlsfile.Files
	host   string // this one's name
}

func newWebhook(c config.Webhook, host string) *webhook {
	w := &webhook{Webhook: c, host: host, tls: tlsfile.Files{CA: c.CA}}
	w.client = http.Client{
		Timeout: c.Timeout,
		// A redirect would lead what is signed for one server to another one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: new(net.Dialer).DialContext,
			DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return w.tls.Dial(ctx, network, address, new(net.Dialer).DialContext)
			},
			MaxIdleConns: 1, IdleConnTimeout: 10 * time.Second, MaxResponseHeaderBytes: 16 << 10,
		},
	}
	return w
}

// to returns the server without the path, which may be a secret.
func (w *webhook) to() string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return "?" // the configuration was checked
	}
	return u.Scheme + "://" + u.Host
}

// deliver makes one request.
func (w *webhook) deliver(ctx context.Context, e event.Event) error {
	body, err := json.Marshal(message{e, w.host})
	if err != nil {
		return final{err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return final{w.hide(err)}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "weir/"+version.Get().Version)
	if err := w.sign(request.Header, e, body, time.Now()); err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return w.tls.Explain(w.hide(err))
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // it is there to be quoted
	return judge(response, strings.TrimSpace(string(answer)))
}

// sign writes the headers of the Standard Webhooks: the id of the message, the time, and with a
// secret the HMAC of both and the body.
func (w *webhook) sign(h http.Header, e event.Event, body []byte, now time.Time) error {
	id, at := fmt.Sprintf("%s-%d-%d", w.host, e.At.Unix(), e.ID), strconv.FormatInt(now.Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	if w.SecretFile == "" {
		return nil
	}
	key, err := readSecret(w.SecretFile)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.", id, at)
	mac.Write(body)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

// readSecret returns the key that a file holds.
func readSecret(file string) ([]byte, error) {
	text, err := tlsfile.Secret(file)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretForm))
	if err != nil || !strings.HasPrefix(text, secretForm) || len(key) < 24 {
		return nil, fmt.Errorf("secret %s: is not %s with 24 bytes or more in base64; make one: echo %s$(openssl rand -base64 32)", file, secretForm, secretForm)
	}
	return key, nil
}

// judge says whether an answer means that the event was taken, and whether another attempt may
// help: not where the server says that the request itself is wrong.
func judge(r *http.Response, answer string) error {
	switch {
	case r.StatusCode < 300:
		return nil
	case r.StatusCode < 400:
		return final{fmt.Errorf("the server answers %s; write the address that it redirects to under tell: webhook: in weir.yaml", r.Status)}
	case r.StatusCode >= 500, r.StatusCode == http.StatusRequestTimeout, r.StatusCode == http.StatusTooEarly, r.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("the server answers %s %q", r.Status, answer)
	}
	return final{fmt.Errorf("the server answers %s %q", r.Status, answer)}
}

// hide takes the path out of an error, which may be a secret.
func (w *webhook) hide(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return fmt.Errorf("%s: %w", w.to(), about.Err)
	}
	return err
}
