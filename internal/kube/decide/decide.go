// SPDX-License-Identifier: Apache-2.0

// Package decide is what follows from what a node knows of its pods: the workloads and groups
// that the agent should have, and the faults in annotations that people should be told of. It
// is pure.
//
//	out := decide.Decide(decide.NodeInput{
//		Pods:       []decide.Pod{{Namespace: "shop", Name: "web-0", Sandbox: "5a0c", Netns: "/run/netns/a", Annotations: map[string]string{"weir.dev/min": "20M", "weir.dev/weight": "x"}}},
//		Namespaces: map[string]map[string]string{"shop": {"weir.dev/max": "100M"}},
//	})
//	out.Workloads[0].Change   // asked for shop/web-0: min 20mbit, group ns.shop
//	out.Groups[0]             // ns.shop: max 100mbit
//	out.Faults[0]             // annotation weir.dev/weight "x": not a whole number; ...
//
// An annotation that cannot be read costs nothing but itself: the others hold.
package decide

import (
	"cmp"
	"slices"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/texts"
)

// QoSClass is a pod's class of quality of service, as Kubernetes computes it.
type QoSClass string

// The classes.
const (
	Guaranteed QoSClass = "Guaranteed"
	Burstable  QoSClass = "Burstable"
	BestEffort QoSClass = "BestEffort"
)

// Pod is a pod of this node.
type Pod struct {
	Namespace, Name, UID string
	Sandbox              string // its id
	Netns                string // path of its network namespace; "" = the host's
	Cgroup               string // path below the mount of cgroups; "" = not known
	QoS                  QoSClass
	Annotations          map[string]string
	Static               bool // of the node's administrator: the API server has a mirror of it
}

// Key returns the name of the pod's workload.
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// Ref returns the pod as an Event names it.
func (p Pod) Ref() Ref { return Ref{Kind: KindPod, Namespace: p.Namespace, Name: p.Name, UID: p.UID} }

// Config is what the node's administrator says of all pods.
type Config struct {
	Weights map[QoSClass]uint32 // of pods without an annotation; 0 = the agent's default
	// Forbidden are the fields, by their names in policy.AllNames, that annotations may not
	// say.
	Forbidden []string
	// Restricted are those that they may say where their namespace has a label with
	// AllowPrefix, as the admission policies have it; with any, a max of none is one too.
	Restricted []string
	MaxWeight  uint32 // the largest that annotations of pods may give; 0 = any
}

// NodeInput is everything that decides.
type NodeInput struct {
	Config
	Pods       []Pod
	Namespaces map[string]map[string]string // annotations, by namespace
	Labels     map[string]map[string]string // those with AllowPrefix, by namespace
	// Texts is what annotations said before, so that their texts are not parsed again; nothing
	// follows from it.
	Texts *texts.Kept
}

// Workload is a pod as the agent should have it.
type Workload struct {
	Pod
	Change policy.Change // what its annotations, and its namespace's, ask for
	Weight uint32        // by its class, where no annotation and no weir.yaml says one; 0 = the agent's default
}

// Group is a group as the agent should have it.
type Group struct {
	Name   string
	Ref    Ref // what its policy comes from
	Change policy.Change
}

// Wanted is what follows from a NodeInput.
type Wanted struct {
	Workloads []Workload // by key
	Groups    []Group    // by name; each has a member
	Faults    []InvalidAnnotation
}

// The kinds of objects that Events are about.
const (
	KindPod       = "Pod"
	KindNamespace = "Namespace"
)

// Ref names an object of the cluster.
type Ref struct{ Kind, Namespace, Name, UID string }

// InvalidAnnotation is an annotation of which nothing follows.
type InvalidAnnotation struct {
	Ref
	Err invalid.Error // Field is "annotation weir.dev/min"
}

// GroupPrefix begins the name of each group that weir-kubernetes makes: "ns.shop" is a
// namespace, "ns.shop.batch" the pods of that namespace with weir.dev/group: batch. No
// namespace has a dot in its name, so they cannot be confused.
const GroupPrefix = "ns."

// Decide returns what follows from a world.
func Decide(w NodeInput) Wanted {
	var d Wanted
	groups := map[string]Group{}
	namespaces := map[string]string{} // names of the groups that namespaces are
	for _, p := range slices.SortedFunc(slices.Values(w.Pods), func(a, b Pod) int { return cmp.Compare(a.Key(), b.Key()) }) {
		name, known := namespaces[p.Namespace]
		if !known {
			g, faults := w.namespaceGroup(p.Namespace)
			d.Faults = append(d.Faults, faults...)
			if !g.Change.Empty() {
				name, groups[g.Name] = g.Name, g
			}
			namespaces[p.Namespace] = name
		}
		change, faults := w.podChange(p, name)
		d.Faults = append(d.Faults, faults...)
		if own := change.To().Group; own != "" && own != name {
			groups[own] = Group{Name: own, Ref: p.Ref()}
		}
		d.Workloads = append(d.Workloads, Workload{Pod: p, Change: change, Weight: w.Weights[p.QoS]})
	}
	for _, g := range groups {
		d.Groups = append(d.Groups, g)
	}
	slices.SortFunc(d.Groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	return d
}

// namespaceGroup returns the group that a namespace's annotations make of it; its Change is
// empty if it is none.
func (w NodeInput) namespaceGroup(namespace string) (Group, []InvalidAnnotation) {
	ref := Ref{Kind: KindNamespace, Name: namespace}
	change, mistakes := w.read(w.Namespaces[namespace], policy.OnGroup, nil)
	return Group{Name: GroupPrefix + namespace, Ref: ref, Change: change}, faults(ref, mistakes)
}

// podChange returns what is asked for a pod. group is the one that its namespace is, "" if it
// is none.
func (w NodeInput) podChange(p Pod, group string) (policy.Change, []InvalidAnnotation) {
	change, mistakes := w.read(p.Annotations, policy.OnWorkload, w.Forbidden)
	change, denied := w.withinRights(p, change)
	mistakes = append(mistakes, denied...)
	refuse := func(msg, remedy string) {
		mistakes = append(mistakes, &invalid.Error{Field: said("group"), Value: change.To().Group, Msg: msg, Remedy: remedy})
		change = change.Without("group")
	}
	if own := change.To().Group; own != "" {
		name := GroupPrefix + p.Namespace + "." + own
		switch {
		case group != "":
			refuse("the namespace "+p.Namespace+" is a group already, by its own annotations, and a group has no groups in it",
				"take this annotation away, or the weir.dev annotations of the namespace")
		case policy.CheckGroupName(name) != nil:
			refuse("is too long beside the name of the namespace", "choose a shorter name")
		default:
			change.Set("group", func(to *policy.Policy) { to.Group = name })
		}
	}
	if group != "" {
		change.Set("group", func(to *policy.Policy) { to.Group = group })
	}
	return change, faults(p.Ref(), mistakes)
}

func faults(of Ref, mistakes []*invalid.Error) []InvalidAnnotation {
	var list []InvalidAnnotation
	for _, m := range mistakes {
		list = append(list, InvalidAnnotation{of, *m})
	}
	return list
}
