// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"weir/internal/cluster/move"
)

// refusable bounds how many findings are listed: a hostile source may send many.
const refusable = 20

// Examination collects what a target does not accept.
type Examination struct{ list []PreflightFinding }

// Full says that no more is listed.
func (x *Examination) Full() bool { return len(x.list) >= refusable }

// Refuse notes a field with its value. rule is the key below cluster.accept that would
// allow it, "" if none does.
func (x *Examination) Refuse(field string, value any, rule string) {
	if x.Full() { // what follows costs as much as the value is long
		return
	}
	remedy := "start it without; no rule of a node allows it"
	if rule != "" {
		remedy = "an operator of this node may allow it: cluster.accept." + rule + " in weir.yaml"
	}
	x.Note("not-accepted", fmt.Sprintf("%.300s is %.120s, which this node does not accept from others", field, show(value)), remedy)
}

// Contradict notes that two parts of a description say different things.
func (x *Examination) Contradict(field string, says, other any) {
	if x.Full() {
		return
	}
	x.Note("contradiction", fmt.Sprintf("%s is %.80s in the order and %.80s in the configuration", field, show(says), show(other)), "run the same Weir on all nodes")
}

// Note adds a refusal.
func (x *Examination) Note(code, msg, remedy string) {
	if !x.Full() {
		x.list = append(x.list, refuse(code, msg, remedy))
	}
}

// Findings returns all findings, nil if everything is accepted.
func (x *Examination) Findings() []PreflightFinding { return x.list }

// NotAccepted is nil for no findings, else one definite answer with all of them.
func NotAccepted(list []PreflightFinding) error {
	if len(list) == 0 {
		return nil
	}
	return &move.Error{Code: move.CodeNotAccepted, Msg: joined(list)}
}

// Refusal is nil for no findings, else one definite answer with all of them: the step is not
// taken.
func Refusal(list []PreflightFinding) error {
	if len(list) == 0 {
		return nil
	}
	return &move.Error{Code: move.CodeRefused, Msg: joined(list)}
}

func joined(list []PreflightFinding) string {
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ")
}

func show(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return fmt.Sprint(value)
}
