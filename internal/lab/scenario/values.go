// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
)

// maxTime bounds every duration in a file: beyond a day it is a mistake.
const maxTime = 24 * time.Hour

// scalar is the text of a value that is not a list or a mapping.
func (r *reader) scalar(n ast.Node, path, want string) (string, bool) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return text(n), true
	case *ast.AnchorNode, *ast.AliasNode:
		r.fail(n, path, "", "anchors and aliases are not part of the format; repeat the value")
	default:
		r.fail(n, path, "", "needs %s", want)
	}
	return "", false
}

func (r *reader) str(dst *string, want string) field {
	return func(n ast.Node, path string) {
		if v, ok := r.literal(n, path, want); ok {
			*dst = v
		}
	}
}

// literal is a scalar or a block of text.
func (r *reader) literal(n ast.Node, path, want string) (string, bool) {
	if l, ok := n.(*ast.LiteralNode); ok {
		return strings.TrimSpace(l.Value.Value), true
	}
	return r.scalar(n, path, want)
}

// count reads a whole number within bounds.
func (r *reader) count(dst *int, lo, hi int, what string) field {
	return func(n ast.Node, path string) {
		s, ok := r.scalar(n, path, what)
		if !ok {
			return
		}
		v, err := strconv.Atoi(s)
		if err != nil || v < lo || v > hi {
			r.fail(n, path, s, "needs %s, a whole number from %d to %d", what, lo, hi)
			return
		}
		*dst = v
	}
}

// rate reads an absolute rate or a share of the link; "none" is 0.
func (r *reader) rate(dst *policy.Rate, link policy.Rate) field {
	return func(n ast.Node, path string) {
		s, ok := r.scalar(n, path, "a rate such as 20mbit")
		if !ok {
			return
		}
		a, err := policy.ParseAmount(s)
		var bad *invalid.Error
		switch {
		case errors.As(err, &bad):
			r.fail(n, path, s, "%s; %s", bad.Msg, bad.Remedy)
		case err != nil:
			r.fail(n, path, s, "%v", err)
		case a.Percent != 0 && link == 0:
			r.fail(n, path, s, "a share needs something to be a share of; write a rate such as 100mbit")
		default:
			*dst = a.Of(link)
		}
	}
}

// positiveRate is rate without zero.
func (r *reader) positiveRate(dst *policy.Rate, link policy.Rate) field {
	return func(n ast.Node, path string) {
		before := len(r.problems)
		if text(n) != "0" {
			r.rate(dst, link)(n, path)
		}
		if len(r.problems) == before && *dst == 0 {
			r.fail(n, path, text(n), "must be above zero, such as 100mbit")
		}
	}
}

// share reads a percentage, or a plain number from 0 to 1.
func (r *reader) share(dst *float64, limit float64) field {
	return func(n ast.Node, path string) {
		s, ok := r.scalar(n, path, "a share such as 0.1%")
		if !ok {
			return
		}
		v, err := parseShare(s)
		if err != nil || v < 0 || v > limit {
			r.fail(n, path, s, "needs a share from 0%% to %g%%, such as 0.1%%", limit*100)
			return
		}
		*dst = v
	}
}

func parseShare(s string) (float64, error) {
	scale := 1.0
	if p, ok := strings.CutSuffix(strings.TrimSpace(s), "%"); ok {
		s, scale = strings.TrimSpace(p), 100
	}
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = strconv.ErrRange
	}
	return v / scale, err
}

// duration reads a time with its unit.
func (r *reader) duration(dst *time.Duration, lo time.Duration) field {
	return func(n ast.Node, path string) {
		s, ok := r.scalar(n, path, "a time such as 10s or 21.3ms")
		if !ok {
			return
		}
		v, err := time.ParseDuration(s)
		switch {
		case err != nil:
			r.fail(n, path, s, "needs a time with its unit, such as 10s, 1m30s or 21.3ms")
		case v < lo:
			r.fail(n, path, s, "must be at least %v", lo)
		case v > maxTime:
			r.fail(n, path, s, "must be at most %v", maxTime)
		default:
			*dst = v
		}
	}
}

// word reads one of a set of names.
func (r *reader) word(dst *string, what string, known []string) field {
	return func(n ast.Node, path string) {
		s, ok := r.scalar(n, path, "one of "+strings.Join(known, ", "))
		if !ok {
			return
		}
		for _, k := range known {
			if s == k {
				*dst = s
				return
			}
		}
		r.unknown(n, path, what, s, known)
	}
}

// toggle reads on or off (also YAML's true and false).
func (r *reader) toggle(dst *bool) field {
	return func(n ast.Node, path string) {
		switch s, ok := r.scalar(n, path, "on or off"); {
		case !ok:
		case s == "on" || s == "true":
			*dst = true
		case s == "off" || s == "false":
			*dst = false
		default:
			r.fail(n, path, s, "needs on or off")
		}
	}
}

// names are a map's keys in order.
func names[K ~string, V any](m map[K]V) []string {
	list := make([]string, 0, len(m))
	for k := range m {
		list = append(list, string(k))
	}
	sort.Strings(list)
	return list
}
