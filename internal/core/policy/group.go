// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"strings"

	"weir/internal/core/invalid"
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
