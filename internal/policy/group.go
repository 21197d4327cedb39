// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"regexp"
	"strings"

	"weir/internal/invalid"
)

var groupName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// CheckGroupName refuses what cannot be a group's name. The error is an *invalid.Error
// for the field "group".
func CheckGroupName(name string) error {
	refuse := func(msg, remedy string) error {
		return &invalid.Error{Field: "group", Value: name, Msg: msg, Remedy: remedy}
	}
	if !groupName.MatchString(name) {
		return refuse("cannot be a group's name", "use up to 128 letters, digits, dots, dashes and underscores, a letter or digit first")
	}
	if strings.EqualFold(name, "none") {
		return refuse("stands for no group", "choose another name")
	}
	return nil
}

// GroupMin checks that a group may have this min beside its members' mins: 0,
// which reserves for each member by itself, or at least their sum. The error is
// an *invalid.Error for the field "min".
func GroupMin(ask Rate, members []Floor) error {
	if ask == 0 {
		return nil
	}
	return holds("min", ask, members, "do without a min of the group's own")
}

// GroupMax checks that a group may have this max beside its members' mins: 0, for
// none, or at least their sum. The error is an *invalid.Error for the field "max".
func GroupMax(ask Rate, members []Floor) error {
	if ask == 0 {
		return nil
	}
	return holds("max", ask, members, "")
}

func holds(field string, ask Rate, members []Floor, way string) error {
	sum := Sum(members)
	if ask >= sum {
		return nil
	}
	refused := Refused{Holders: holders(members)}
	remedy := fmt.Sprintf("write %s or more", sum.Compact())
	if way != "" {
		remedy += ", " + way
	}
	return &invalid.Error{
		Field: field, Value: ask.Compact(),
		Msg:    fmt.Sprintf("the mins of its members add up to %s, %s more", sum, sum-ask),
		Remedy: remedy + ", or lower the min of " + refused.holders(),
	}
}
