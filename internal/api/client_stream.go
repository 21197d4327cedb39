// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
)

// ErrStreamEnded is returned by Stream when the agent ended the stream: the agent stopped
// or was killed. A caller that wants to go on watching calls Stream again.
var ErrStreamEnded = errors.New("the agent ended the stream")

// Stream calls fn with each Sample that the agent sends, about one a second,
// until ctx ends, fn fails or the agent goes away. It never returns nil.
func (c *Client) Stream(ctx context.Context, fn func(Sample) error) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/stream", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	err = readEvents(resp.Body, func(data []byte) error {
		var s Sample
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("sample from the agent at %s cannot be read: %w", c.socket, err)
		}
		return fn(s)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return ErrStreamEnded
	}
	return err
}

// readEvents calls fn with the data of each server-sent event. Of the format it
// needs only this: fields are lines, "data" may be repeated, an empty line ends
// an event, and an event that the end of the stream cut off does not count.
func readEvents(r io.Reader, fn func(data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxReply)
	var data []byte
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if data != nil {
				if err := fn(data); err != nil {
					return err
				}
			}
			data = nil
			continue
		}
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			if data == nil {
				data = []byte{} // an event with empty data is one too
			} else {
				data = append(data, '\n')
			}
			data = append(data, strings.TrimPrefix(value, " ")...)
		}
	}
	return lines.Err()
}
