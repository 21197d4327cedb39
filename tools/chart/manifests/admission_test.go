// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// rights says who may set the shares of namespaces, as RBAC would.
type rights struct{ admins []string }

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetAPIGroup() == "weir.dev" && a.GetResource() == "namespaces" && a.GetVerb() == "set" && slices.Contains(r.admins, a.GetUser().GetName()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// gate is the API server's own plugin with the chart's policies.
type gate struct {
	t      *testing.T
	plugin *validating.Plugin
}

func newGate(t *testing.T, text string, namespaces ...*corev1.Namespace) gate {
	t.Helper()
	rendered, err := render("../"+chartFolder, values(t, text))
	if err != nil {
		t.Fatal(err)
	}
	var kept []runtime.Object
	for _, o := range objects(t, rendered) {
		switch o := o.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			// The API server's defaults.
			o.Spec.MatchConstraints.NamespaceSelector, o.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
			equivalent := admissionregistrationv1.Equivalent
			o.Spec.MatchConstraints.MatchPolicy = &equivalent
			all := admissionregistrationv1.AllScopes
			for i := range o.Spec.MatchConstraints.ResourceRules {
				o.Spec.MatchConstraints.ResourceRules[i].Scope = &all
			}
			kept = append(kept, o)
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			kept = append(kept, o)
		}
	}
	for _, n := range namespaces {
		kept = append(kept, n)
	}
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(kept...)
	factory := informers.NewSharedInformerFactory(client, 0)
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(factory)
	plugin.SetRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(clientgoscheme.Scheme))
	plugin.SetDynamicClient(dynamicfake.NewSimpleDynamicClient(clientgoscheme.Scheme))
	plugin.SetUnconditionalAuthorizer(rights{admins: []string{"admin"}})
	stop := t.Context().Done()
	plugin.SetDrainedNotification(stop)
	plugin.SetEnabled(true)
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	return gate{t, plugin}
}

// try asks the plugin about one request, and returns what it answers; "" = let pass.
func (g gate) try(who user.Info, o, old runtime.Object, subresource string) string {
	g.t.Helper()
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(o)
	if err != nil {
		g.t.Fatal(err)
	}
	mapping, err := testrestmapper.TestOnlyStaticRESTMapper(clientgoscheme.Scheme).RESTMapping(kinds[0].GroupKind(), kinds[0].Version)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.tryAt(who, o, old, mapping.Resource, subresource)
}

// tryAt asks about a request of a resource whose objects are of another kind, such as pods/binding.
func (g gate) tryAt(who user.Info, o, old runtime.Object, resource schema.GroupVersionResource, subresource string) string {
	g.t.Helper()
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(o)
	if err != nil {
		g.t.Fatal(err)
	}
	accessor, err := meta.Accessor(o)
	if err != nil {
		g.t.Fatal(err)
	}
	operation := admission.Create
	if old != nil {
		operation = admission.Update
	}
	a := admission.NewAttributesRecord(o, old, kinds[0], accessor.GetNamespace(), accessor.GetName(), resource, subresource, operation, nil, false, who)
	err = g.plugin.Validate(g.t.Context(), a, admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme))
	if err == nil {
		return ""
	}
	return err.Error()
}

// ready waits until the plugin has the policies: a request that they refuse is refused.
func (g gate) ready(refused func() string) {
	g.t.Helper()
	for end := time.Now().Add(30 * time.Second); refused() == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatal("the policies are not in force within 30 s")
		}
	}
}

func pod(namespace string, annotations ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: pairs(annotations)}}
}

func pairs(list []string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(list, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

func space(name string, labels []string, annotations ...string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: pairs(labels), Annotations: pairs(annotations)}}
}

var (
	tenant, admin = &user.DefaultInfo{Name: "tenant"}, &user.DefaultInfo{Name: "admin"}
	kubelet       = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
)

// TestPodsPolicy: what annotations of pods may say, by field and namespace.
func TestPodsPolicy(t *testing.T) {
	g := newGate(t, "{}", space("shop", nil), space("paid", []string{"allow.weir.dev/min", "true"}), space("off", []string{"allow.weir.dev/min", "false"}))
	g.ready(func() string { return g.try(tenant, pod("shop", "weir.dev/min", "1M"), nil, "") })
	for _, tt := range []struct {
		name        string
		who         user.Info // nil = a tenant
		o, old      *corev1.Pod
		subresource string
		want        string // "" = let pass
	}{
		{name: "none", o: pod("shop")},
		{name: "weight", o: pod("shop", "weir.dev/weight", "3", "weir.dev/max", "10M", "weir.dev/ingress.max", "1M")},
		{name: "of others", o: pod("shop", "kubernetes.io/egress-bandwidth", "10M", "weir.example/min", "1")},
		{name: "min", o: pod("shop", "weir.dev/min", "1M"), want: "annotation weir.dev/min takes room that the scheduler does not count: use a ResourceClaim of class link.weir.dev, or ask an administrator for the label allow.weir.dev/min=true on namespace shop"},
		{name: "min where it is allowed", o: pod("paid", "weir.dev/min", "1M")},
		{name: "another field there", o: pod("paid", "weir.dev/ingress.min", "1M"), want: "annotation weir.dev/ingress.min takes room"},
		{name: "label false", o: pod("off", "weir.dev/min", "1M"), want: "takes room"},
		{name: "reserve", o: pod("shop", "weir.dev/reserve", "1M"), want: "annotation weir.dev/reserve takes room"},
		{name: "no max", o: pod("shop", "weir.dev/max", " None "), want: "annotation weir.dev/max takes room"},
		{name: "an empty max", o: pod("paid", "weir.dev/max", " "), want: "annotation weir.dev/max takes room"},
		{name: "no max of ingress", o: pod("paid", "weir.dev/ingress.max", "none"), want: "annotation weir.dev/ingress.max takes room"},
		{name: "the largest weight", o: pod("shop", "weir.dev/weight", "100")},
		{name: "a larger one", o: pod("shop", "weir.dev/weight", " 101 "), want: "annotation weir.dev/weight may be 100 at most in this cluster"},
		{name: "of ingress", o: pod("shop", "weir.dev/ingress.weight", "10000"), want: "annotation weir.dev/ingress.weight may be 100 at most"},
		{name: "no weight at all", o: pod("shop", "weir.dev/weight", "many")}, // which weir-kubernetes tells
		{name: "dscp", o: pod("paid", "weir.dev/dscp", "ef"), want: "annotation weir.dev/dscp is forbidden in this cluster; take it away"},
		{name: "unknown", o: pod("shop", "weir.dev/wieght", "3"), want: "annotation weir.dev/wieght is not known"},
		{name: "another change of a pod that has a min", o: pod("shop", "weir.dev/min", "1M", "x", "y"), old: pod("shop", "weir.dev/min", "1M")},
		{name: "its min taken away", o: pod("shop"), old: pod("shop", "weir.dev/min", "1M")},
		{name: "its min raised", o: pod("shop", "weir.dev/min", "2M"), old: pod("shop", "weir.dev/min", "1M"), want: "takes room"},
		{name: "added later", o: pod("shop", "weir.dev/min", "2M"), old: pod("shop"), want: "takes room"},
		{name: "through the status", o: pod("shop", "weir.dev/min", "2M"), old: pod("shop"), subresource: "status", want: "takes room"},
		{name: "mirror of a static pod", who: kubelet, o: pod("shop", "weir.dev/min", "2M", "kubernetes.io/config.mirror", "x")},
		{name: "a pod that says it is one", o: pod("shop", "weir.dev/min", "2M", "kubernetes.io/config.mirror", "x"), want: "takes room"},
	} {
		var old runtime.Object
		if tt.old != nil {
			old = tt.old
		}
		if tt.who == nil {
			tt.who = tenant
		}
		got := g.try(tt.who, tt.o, old, tt.subresource)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestBindingsPolicy: a Binding brings no annotation of Weir's to a pod, by either of its ways, in
// namespaces that may set a min too.
func TestBindingsPolicy(t *testing.T) {
	g := newGate(t, "{}", space("shop", nil), space("paid", []string{"allow.weir.dev/min", "true"}))
	bind := func(namespace string, annotations ...string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Annotations: pairs(annotations)}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	g.ready(func() string { return g.tryAt(admin, bind("shop", "weir.dev/min", "1M"), nil, pods, "binding") })
	for _, at := range []struct {
		resource    string
		subresource string
	}{{"pods", "binding"}, {"bindings", ""}} {
		for _, tt := range []struct {
			o    *corev1.Binding
			want string
		}{
			{bind("shop"), ""},
			{bind("shop", "scheduler.example/score", "7"), ""},
			{bind("shop", "weir.dev/min", "1G"), "a Binding may not bring annotation weir.dev/min to a pod; annotate the pod"},
			{bind("paid", "weir.dev/min", "1G"), "a Binding may not bring annotation weir.dev/min to a pod"},
			{bind("shop", "weir.dev/weight", "3"), "a Binding may not bring annotation weir.dev/weight to a pod"},
		} {
			got := g.tryAt(tenant, tt.o, nil, corev1.SchemeGroupVersion.WithResource(at.resource), at.subresource)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("%s/%s %v: %q, want %q", at.resource, at.subresource, tt.o.Annotations, got, tt.want)
			}
		}
	}
}

// TestPodsPolicyByValues: forbidden and restricted fields are the chart's values.
func TestPodsPolicyByValues(t *testing.T) {
	g := newGate(t, "pods: {forbidden: [limit_packets, discipline], restricted: [max]}", space("shop", nil))
	g.ready(func() string { return g.try(tenant, pod("shop", "weir.dev/discipline", "pq"), nil, "") })
	for annotation, want := range map[string]string{
		"weir.dev/min": "", "weir.dev/dscp": "", "weir.dev/limit-packets": "is forbidden", "weir.dev/discipline": "is forbidden", "weir.dev/max": "takes room",
	} {
		if got := g.try(admin, pod("shop", annotation, "1"), nil, ""); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", annotation, got, want)
		}
	}
}

// TestNamespacesPolicy: who may set the shares of a namespace, and what it may say.
func TestNamespacesPolicy(t *testing.T) {
	g := newGate(t, "{}")
	plain, shared, allowed := space("shop", nil, "a", "b"), space("shop", nil, "a", "b", "weir.dev/min", "10M"), space("shop", []string{"allow.weir.dev/min", "true"}, "a", "b")
	g.ready(func() string { return g.try(tenant, shared, plain, "") })
	for _, tt := range []struct {
		name    string
		who     user.Info
		o, old  *corev1.Namespace
		sub     string
		refused string
	}{
		{name: "a new one", who: tenant, o: plain},
		{name: "a new one with a min", who: tenant, o: shared, refused: "weir.dev/min of a namespace: tenant may not set it; an administrator may, or bind ClusterRole weir-namespaces"},
		{name: "by an administrator", who: admin, o: shared, old: plain},
		{name: "min taken away", who: tenant, o: plain, old: shared, refused: "weir.dev/min of a namespace"},
		{name: "min changed", who: tenant, o: space("shop", nil, "weir.dev/min", "20M"), old: shared, refused: "weir.dev/min of a namespace"},
		{name: "something else of it", who: tenant, o: space("shop", nil, "weir.dev/min", "10M", "a", "c"), old: shared},
		{name: "allowed by himself", who: tenant, o: allowed, old: plain, refused: "allow.weir.dev/min of a namespace"},
		{name: "through finalize", who: tenant, o: allowed, old: plain, sub: "finalize", refused: "allow.weir.dev/min of a namespace"},
		{name: "through the status", who: tenant, o: shared, old: plain, sub: "status", refused: "weir.dev/min of a namespace"},
		{name: "label taken away", who: tenant, o: plain, old: allowed, refused: "allow.weir.dev/min of a namespace"},
		{name: "allowed by an administrator", who: admin, o: allowed, old: plain},
		{name: "what a namespace cannot say", who: admin, o: space("shop", nil, "weir.dev/discipline", "pq"), refused: "annotation weir.dev/discipline is not known on a namespace"},
	} {
		var old runtime.Object
		if tt.old != nil {
			old = tt.old
		}
		if got := g.try(tt.who, tt.o, old, tt.sub); tt.refused == "" && got != "" || !strings.Contains(got, tt.refused) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.refused)
		}
	}
}

// TestSlicesPolicy: weir-kubernetes of a node writes that node's links alone.
func TestSlicesPolicy(t *testing.T) {
	g := newGate(t, "{}")
	slice := func(node, driver string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{NodeName: &node, Driver: driver}}
	}
	on := func(nodes ...string) user.Info {
		return &user.DefaultInfo{Name: "system:serviceaccount:weir:weir", Extra: map[string][]string{"authentication.kubernetes.io/node-name": nodes}}
	}
	g.ready(func() string { return g.try(on("n2"), slice("n1", "weir.dev"), nil, "") })
	for _, tt := range []struct {
		who     user.Info
		o, old  *resourcev1.ResourceSlice
		refused string
	}{
		{who: on("n1"), o: slice("n1", "weir.dev")},
		{who: on("n1"), o: slice("n1", "weir.dev"), old: slice("n1", "weir.dev")},
		{who: on("n2"), o: slice("n1", "weir.dev"), refused: `weir-kubernetes on node "n2" may not write a ResourceSlice of node "n1"`},
		{who: on(), o: slice("n1", "weir.dev"), refused: `weir-kubernetes on node "" may not`},
		{who: on("n1"), o: slice("n1", "gpu.example"), refused: "may not write a ResourceSlice of driver gpu.example"},
		{who: admin, o: slice("n1", "gpu.example")},
	} {
		var old runtime.Object
		if tt.old != nil {
			old = tt.old
		}
		if got := g.try(tt.who, tt.o, old, ""); tt.refused == "" && got != "" || !strings.Contains(got, tt.refused) {
			t.Errorf("%v %s: %q, want %q", tt.who.GetExtra(), *tt.o.Spec.NodeName, got, tt.refused)
		}
	}
}

// TestNoPolicy: without admission nothing is refused.
func TestNoPolicy(t *testing.T) {
	rendered, err := render("../"+chartFolder, values(t, "admission: {enabled: false}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, rendered) {
		if kind := o.GetObjectKind().GroupVersionKind(); kind.Group == "admissionregistration.k8s.io" {
			t.Error(fmt.Sprint(kind))
		}
	}
}
