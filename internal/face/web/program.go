// SPDX-License-Identifier: Apache-2.0

package web

import "weir/internal/core/refusal"

// Program is a program that has a page, in the words of its refusals.
type Program struct {
	Name    string // agent or manager
	Command string // prints a link
	Field   string // of weir.yaml, with the page's settings
	Example string // of that field, with which the page is on
	index   string // the file that is the page
	// apart are requests that a session does not make, by patterns of http.ServeMux.
	apart map[string]apart
}

// apart is the refusal of a request that a session does not make.
type apart struct{ why, remedy string }

// The programs with a page. A session of the manager's has no secret that would outlive it:
// neither the authority's key nor a token by which a node can join.
var (
	Agent = Program{Name: "agent", Command: "weir web", Field: "web", Example: "web: {listen: 127.0.0.1:7480}", index: "/index.html",
		apart: map[string]apart{"/v1/web": noLinks("weir web")}}
	Manager = Program{Name: "manager", Command: "weir manager web", Field: "manager.web", Example: "manager: {web: {listen: 127.0.0.1:7481}}", index: "/cluster.html",
		apart: map[string]apart{
			"/v1/web":           noLinks("weir manager web"),
			"POST /v1/snapshot": {"a session of the page takes no snapshot, which holds the authority's key", "run weir manager snapshot on the host"},
			"POST /v1/tokens":   {"a session of the page makes no tokens, by which nodes join", "run weir manager token create on the host"},
		}}
)

// noLinks keeps a session from outliving its end by links to further ones.
func noLinks(command string) apart {
	return apart{"a session of the page makes no links and ends none", "run " + command + " on the host"}
}

// denied returns the refusal of a request that has not shown who makes it.
func (p Program) denied(msg string) *refusal.Error {
	return &refusal.Error{Kind: refusal.Denied, Field: "token", Msg: msg, Remedy: "run " + p.Command + " on the host and open the link that it prints"}
}
