// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/internal/base/audit"
	"weir/internal/core/refusal"
)

// DefaultSocket is the path where an agent listens by default.
const DefaultSocket = "/run/weir/weir.sock"

// Errors of reaching the agent, as opposed to the agent's refusals (*Error).
var (
	ErrNoAgent      = errors.New("no agent")
	ErrNotPermitted = errors.New("permission denied")
)

// Client talks to an agent over its unix socket. It is safe for use by several
// goroutines. Example:
//
//	c := api.NewClient(api.DefaultSocket)
//	w, err := c.Workload(ctx, "web")
//
// Errors are *Error where the agent refused, and wrap ErrNoAgent or
// ErrNotPermitted where it could not be reached.
type Client struct {
	socket string
	http   http.Client
	who    string // is talked to: the agent or the manager
	absent error  // ErrNoAgent, or what says so of another
	unit   string // its systemd unit
}

// maxReply bounds the size of one answer in bytes: 4,096 workloads on several links take
// about 8 MiB.
const maxReply = 64 << 20

// requestTimeout bounds one request; the stream has none.
const requestTimeout = 30 * time.Second

// NewClient makes a client; it connects with the first request.
func NewClient(socket string) *Client {
	c := &Client{socket: socket, who: "agent", absent: ErrNoAgent, unit: "weir"}
	c.http.Transport = &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, socket) },
		MaxIdleConns:          4,
		IdleConnTimeout:       30 * time.Second,
		ResponseHeaderTimeout: requestTimeout,
	}
	return c
}

// ViewSocket returns the path of the role view's socket beside socket:
// /run/weir/weir-view.sock for /run/weir/weir.sock.
func ViewSocket(socket string) string {
	base, ok := strings.CutSuffix(socket, ".sock")
	if !ok {
		return socket + "-view"
	}
	return base + "-view.sock"
}

// dial opens the socket, or the one of the role view if the user may open no more than
// that. The server refuses changes on the latter.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "unix", socket)
	if !errors.Is(err, fs.ErrPermission) {
		return conn, err
	}
	if view, failed := d.DialContext(ctx, "unix", ViewSocket(socket)); failed == nil {
		return view, nil
	}
	return nil, err
}

// Socket returns the path that the client connects to.
func (c *Client) Socket() string { return c.socket }

// Status asks for the agent's view of itself.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Workloads lists every workload.
func (c *Client) Workloads(ctx context.Context) ([]Workload, error) {
	return call[[]Workload](ctx, c, http.MethodGet, "/v1/workloads", nil)
}

// Workload asks for one workload by its name or by a prefix of its id.
func (c *Client) Workload(ctx context.Context, name string) (Workload, error) {
	return call[Workload](ctx, c, http.MethodGet, workloadPath(name), nil)
}

// Set changes a workload's policy.
func (c *Client) Set(ctx context.Context, name string, change PolicyChange, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodPatch, workloadPath(name)+"/policy"+dryRunQuery(dryRun), change)
}

// Attach makes a workload out of a network namespace, a device, units or a cgroup.
func (c *Client) Attach(ctx context.Context, req AttachRequest, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodPost, "/v1/workloads"+dryRunQuery(dryRun), req)
}

// Detach undoes Attach.
func (c *Client) Detach(ctx context.Context, name string, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodDelete, workloadPath(name)+dryRunQuery(dryRun), nil)
}

// Explain asks why a workload has the rate it has.
func (c *Client) Explain(ctx context.Context, name string) (Explanation, error) {
	return call[Explanation](ctx, c, http.MethodGet, workloadPath(name)+"/explain", nil)
}

// Classify asks which queue of a workload a packet belongs to.
func (c *Client) Classify(ctx context.Context, name string, p Packet) (Placement, error) {
	return call[Placement](ctx, c, http.MethodGet, workloadPath(name)+"/classify?"+p.query().Encode(), nil)
}

// Audit reads the audit log, the oldest entry first.
func (c *Client) Audit(ctx context.Context, q audit.Query) ([]audit.Entry, error) {
	values := url.Values{}
	if !q.Since.IsZero() {
		values.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Object != "" {
		values.Set("object", q.Object)
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	return call[[]audit.Entry](ctx, c, http.MethodGet, "/v1/audit?"+values.Encode(), nil)
}

// Web asks for a link to the page.
func (c *Client) Web(ctx context.Context) (WebLink, error) {
	return call[WebLink](ctx, c, http.MethodGet, "/v1/web", nil)
}

// EndWeb ends all sessions of the page.
func (c *Client) EndWeb(ctx context.Context, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodDelete, "/v1/web"+dryRunQuery(dryRun), nil)
}

// query returns the packet as the server reads it; it leaves out unknown fields.
func (p Packet) query() url.Values {
	values := url.Values{}
	number := func(key string, n uint64) {
		if n != 0 {
			values.Set(key, strconv.FormatUint(n, 10))
		}
	}
	text := func(key, s string) {
		if s != "" {
			values.Set(key, s)
		}
	}
	text("proto", p.Proto)
	text("src", p.Src)
	text("dst", p.Dst)
	text("dscp", p.DSCP)
	number("sport", uint64(p.Sport))
	number("dport", uint64(p.Dport))
	number("vlan", uint64(p.VLAN))
	number("priority", uint64(p.Priority))
	number("mark", uint64(p.Mark))
	return values
}

// Groups lists the groups.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return call[[]Group](ctx, c, http.MethodGet, "/v1/groups", nil)
}

// Group asks for one group.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	return call[Group](ctx, c, http.MethodGet, groupPath(name), nil)
}

// ExplainGroup asks why a group has the rate it has.
func (c *Client) ExplainGroup(ctx context.Context, name string) (Explanation, error) {
	return call[Explanation](ctx, c, http.MethodGet, groupPath(name)+"/explain", nil)
}

// SetGroup makes a group, or changes it.
func (c *Client) SetGroup(ctx context.Context, name string, change GroupChange, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodPatch, groupPath(name)+dryRunQuery(dryRun), change)
}

// DeleteGroup removes a group.
func (c *Client) DeleteGroup(ctx context.Context, name string, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodDelete, groupPath(name)+dryRunQuery(dryRun), nil)
}

// Allocations lists the mins that are set aside for pods.
func (c *Client) Allocations(ctx context.Context) ([]Allocation, error) {
	return call[[]Allocation](ctx, c, http.MethodGet, "/v1/allocations", nil)
}

// Allocate sets a min aside for pods, or changes that.
func (c *Client) Allocate(ctx context.Context, name string, req AllocationRequest, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodPut, allocationPath(name)+dryRunQuery(dryRun), req)
}

// Release gives an allocation back.
func (c *Client) Release(ctx context.Context, name string, dryRun bool) (ChangeResult, error) {
	return call[ChangeResult](ctx, c, http.MethodDelete, allocationPath(name)+dryRunQuery(dryRun), nil)
}

func allocationPath(name string) string { return "/v1/allocations/" + url.PathEscape(name) }

func groupPath(name string) string { return "/v1/groups/" + url.PathEscape(name) }

func workloadPath(name string) string { return "/v1/workloads/" + url.PathEscape(name) }

func dryRunQuery(dryRun bool) string {
	if dryRun {
		return "?dry_run=true"
	}
	return ""
}

// call makes one request and decodes its answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var out T
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&out); err != nil {
		return out, fmt.Errorf("answer of the %s at %s to %s %s cannot be read: %w", c.who, c.socket, method, path, err)
	}
	return out, nil
}

// send makes one request and turns whatever is not a success into an error.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("request %s %s: %w", method, path, err)
		}
		payload = bytes.NewReader(b)
	}
	// The host is never looked up: the transport always dials the socket.
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+path, payload)
	if err != nil {
		return nil, fmt.Errorf("request %s %s: %w", method, path, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.reachError(err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, c.refusal(resp)
	}
	return resp, nil
}

// refusal reads the problem details of a failed request.
func (c *Client) refusal(resp *http.Response) error {
	var p ProblemDetails
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&p); err != nil {
		return &refusal.Error{
			Kind:   KindOf(resp.StatusCode),
			Msg:    "the " + c.who + " answered " + resp.Status,
			Remedy: "see its log: journalctl -u " + c.unit,
		}
	}
	return p.AsError(resp.StatusCode)
}

// reachError tells apart why a socket cannot be talked to.
func (c *Client) reachError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w on %s", ErrNotPermitted, c.socket)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTSOCK):
		return fmt.Errorf("%w at %s", c.absent, c.socket)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("socket path %s is longer than the 107 bytes that a unix socket can have", c.socket)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s at %s did not answer within %v; see its log: journalctl -u %s", c.who, c.socket, requestTimeout, c.unit)
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err // the URL is made up and would only confuse
	}
	return fmt.Errorf("%s at %s: %w", c.who, c.socket, err)
}
