// SPDX-License-Identifier: Apache-2.0

package api

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/wire"
	"weir/internal/core/workload"
)

// texts returns the words of an enumeration as strings.
func texts[S ~string](words ...S) (list []string) {
	for _, word := range words {
		list = append(list, string(word))
	}
	return list
}

// TestEnumerations: what the API says a field can be is what the constants say.
func TestEnumerations(t *testing.T) {
	for _, tt := range []struct {
		of    any
		field string
		want  []string
	}{
		{Workload{}, "Kind", []string{workload.KindDocker, workload.KindNetns, workload.KindDevice, workload.KindVM, workload.KindUnit, workload.KindCgroup, workload.KindPod, workload.KindHost, workload.KindOwn}},
		{Workload{}, "State", []string{workload.StateActive, workload.StateWaiting, workload.StateUnsteered, workload.StateRefused, workload.StateNotHeld}},
		{Group{}, "State", []string{workload.StateActive, workload.StateRefused, workload.StateNotHeld}},
		{Source{}, "State", texts(workload.SourceOK, workload.SourceUnavailable, workload.SourceNone, workload.SourceOff)},
		{Membership{}, "State", texts(MemberConnected, MemberUnreachable, MemberJoining, MemberRefused)},
		{Node{}, "State", texts(NodeUp, NodeLost, NodeJoined)},
		{Move{}, "State", texts(wire.MoveWaiting, wire.MoveOrdered, wire.MoveRunning, wire.MoveDone, wire.MoveRolledBack, wire.MoveRefused, wire.MoveFailed, wire.MoveExpired, wire.MoveCancelled, wire.MoveLost)},
	} {
		field, found := reflect.TypeOf(tt.of).FieldByName(tt.field)
		if got := strings.Split(field.Tag.Get("enum"), ","); !found || !slices.Equal(got, tt.want) {
			t.Errorf("%T.%s: %q, the constants say %q", tt.of, tt.field, got, tt.want)
		}
	}
}
