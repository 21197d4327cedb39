// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// draft is an action under way.
type draft struct {
	mu    sync.Mutex
	entry Entry
}

type draftKey struct{}

// Do records one action: f does it, and its error says whether it was done. What f
// calls finds the action in its context (Note). A panic of f is recorded too.
func (l *Log) Do(ctx context.Context, e Entry, f func(context.Context) error) error {
	if l == nil {
		return f(ctx)
	}
	d := &draft{entry: e}
	d.entry.Result, d.entry.Reason = Failed, "it ended in the middle"
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		l.Append(d.entry)
	}()
	err := f(context.WithValue(ctx, draftKey{}, d))
	d.end(err)
	return err
}

// end notes how the action ended.
func (d *draft) end(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entry.Result, d.entry.Reason = Done, ""
	if err == nil {
		return
	}
	d.entry.Result, d.entry.Reason = Failed, err.Error()
	d.entry.Before, d.entry.After = nil, nil // nothing differs
	var refusal interface{ Refused() bool }
	if errors.As(err, &refusal) && refusal.Refused() {
		d.entry.Result = Refused
	}
}

// Note adds what the action changes to the record of the action that ctx belongs to.
// object "" leaves it as it is. It reports whether ctx belongs to an action.
func Note(ctx context.Context, object string, before, after any) bool {
	d, ok := ctx.Value(draftKey{}).(*draft)
	if !ok {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if object != "" {
		d.entry.Object = object
	}
	d.entry.Before, d.entry.After = before, after
	return true
}

// Ask adds the requested change to the record of the action that ctx belongs to.
func Ask(ctx context.Context, object string, change any) {
	if d, ok := ctx.Value(draftKey{}).(*draft); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.entry.Object, d.entry.Change = object, change
	}
}

// Under reports whether ctx belongs to an action that will be recorded.
func Under(ctx context.Context) bool {
	_, ok := ctx.Value(draftKey{}).(*draft)
	return ok
}

// RefusedError makes a text an error that counts as a refusal.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// Refused implements the interface by which Do recognises a refusal.
func (e RefusedError) Refused() bool { return true }

// Refusedf returns a RefusedError with a formatted text.
func Refusedf(format string, args ...any) error { return RefusedError(fmt.Sprintf(format, args...)) }
