// SPDX-License-Identifier: Apache-2.0

// Package dockerapi makes clients of engines that speak Docker's API, which is Podman's, too. What
// an engine says has parts that who starts a container or makes an image has written, without a
// bound of the engine's; so it has one here: bound.Engine for a line, which is a whole list or one
// event.
//
//	c, err := dockerapi.New("unix:///var/run/docker.sock")
package dockerapi

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/docker/docker/client"

	"weir/internal/core/bound"
)

// New returns a client of the engine at an address; "" means DOCKER_HOST, or the default socket.
// It does not connect yet.
func New(address string) (*client.Client, error) {
	transport := &http.Transport{MaxIdleConns: 6, IdleConnTimeout: 30 * time.Second} // as the client has by itself
	caller := &http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}
	options := []client.Opt{client.WithHTTPClient(caller), client.WithHost(client.DefaultDockerHost), client.FromEnv, client.WithAPIVersionNegotiation()}
	if address != "" {
		options = append(options, client.WithHost(address))
	}
	c, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, err
	}
	caller.Transport = answers{caller.Transport}
	return c, nil
}

// answers bounds the lines of answers in JSON. Others are archives, which their readers bound.
type answers struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(q *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(q)
	if err != nil {
		return answer, err
	}
	if is, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); is == "application/json" {
		answer.Body = &lines{ReadCloser: answer.Body}
	}
	return answer, nil
}

// lines is a text whose lines are bounded.
type lines struct {
	io.ReadCloser
	line int // bytes of the present one
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if last := bytes.LastIndexByte(p[:n], '\n'); last >= 0 {
		l.line = n - last
	} else {
		l.line += n
	}
	if l.line > bound.Engine {
		return 0, &bound.Error{What: "a line of the engine's answer", Has: l.line, Max: bound.Engine, Unit: "bytes",
			Remedy: "look for the container or image with the long labels, and end it"}
	}
	return n, err
}
