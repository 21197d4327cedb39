// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"weir/internal/kube/claims/translate"
)

// objects parses documents of YAML strictly, by their kind.
func objects(t *testing.T, from, text string) (list []any) {
	t.Helper()
	for _, document := range strings.Split(text, "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		into := map[string]any{
			"resource.k8s.io/v1 DeviceClass": new(resourceapi.DeviceClass), "resource.k8s.io/v1 ResourceClaim": new(resourceapi.ResourceClaim),
			"resource.k8s.io/v1 ResourceClaimTemplate": new(resourceapi.ResourceClaimTemplate), "v1 Pod": new(corev1.Pod),
			"rbac.authorization.k8s.io/v1 ClusterRole": new(rbacv1.ClusterRole),
		}[kind.APIVersion+" "+kind.Kind]
		if into == nil {
			t.Fatalf("%s: %s %s is not expected", from, kind.APIVersion, kind.Kind)
		}
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		list = append(list, into)
	}
	return list
}

// TestDocumentedClaims: the manifests of the page and of deploy are what Kubernetes reads, and the
// scheduler allocates the claims among them.
func TestDocumentedClaims(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile("../../../" + path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, section, found := strings.Cut(read("docs/kubernetes.md"), "## A guaranteed minimum by a claim\n")
	section, _, closed := strings.Cut(section, "\n## ")
	if !found || !closed {
		t.Fatal("docs/kubernetes.md has no such section")
	}
	c := newCluster(t)
	c.classes = nil
	rights := map[string]bool{}
	for _, o := range objects(t, "deploy", read("deploy/kubernetes/claims.yaml")) {
		switch o := o.(type) {
		case *resourceapi.DeviceClass:
			c.classes = append(c.classes, o)
		case *rbacv1.ClusterRole:
			for _, rule := range o.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						rights[verb+" "+resource] = true
					}
				}
			}
		}
	}
	c.add("n1", "links: [{device: eth0, egress: 1gbit, ingress: 1gbit}]")
	var claims []*resourceapi.ResourceClaim
	var templates []string
	blocks := strings.Split(section, "```")
	for i := 1; i < len(blocks); i += 2 {
		for _, o := range objects(t, "docs/kubernetes.md", strings.TrimPrefix(blocks[i], "yaml\n")) {
			switch o := o.(type) {
			case *resourceapi.ResourceClaimTemplate:
				templates = append(templates, o.Name)
				claims = append(claims, &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}, Spec: o.Spec.Spec})
			case *resourceapi.ResourceClaim:
				claims = append(claims, o)
			case *corev1.Pod:
				used := o.Spec.ResourceClaims[0]
				if *used.ResourceClaimTemplateName != templates[0] || o.Spec.Containers[0].Resources.Claims[0].Name != used.Name {
					t.Errorf("the pod does not use template %s", templates[0])
				}
			}
		}
	}
	var got []string
	for _, claim := range claims {
		for _, r := range claim.Spec.Devices.Requests { // as the API server fills them in
			r.Exactly.AllocationMode, r.Exactly.Count = resourceapi.DeviceAllocationModeExactCount, 1
		}
		if claim.Status.Allocation = c.allocate(c.nodes[0], claim); claim.Status.Allocation == nil {
			t.Fatalf("claim %s is not allocated", claim.Name)
		}
		status, err := c.nodes[0].agent.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		asked, err := translate.Ask(claim, "n1", status.Links)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %v", claim.Name, asked.Mins))
	}
	if text, want := strings.Join(got, "; "), "uplink-60m [{eth0 egress 60000000}]; both-ways [{eth0 egress 20000000} {eth0 ingress 100000000}]"; text != want {
		t.Errorf("allocated %s, want %s", text, want)
	}
	// Each request that the driver and its library make is among the rights.
	b := newBed(t, oneLink)
	b.publishes("at the start", "eth0 100M")
	b.must(b.prepare(b.claim("web", "10M", "web")))
	b.says("web", "True", "held")
	shared := b.claim("uplink", "10M", "a")
	b.must(b.prepare(shared))
	b.stopAgent()
	b.publishes("gone", "eth0 100M weir.dev/agent")
	for _, action := range b.client.Actions() {
		resource := action.GetResource().Resource
		if action.GetSubresource() != "" {
			resource += "/" + action.GetSubresource()
		}
		own := action.Matches("create", "resourceclaims") || action.Matches("list", "resourceslices") // the test's too
		if !own && !rights[action.GetVerb()+" "+resource] {
			t.Errorf("deploy/kubernetes/claims.yaml has no right to %s %s", action.GetVerb(), resource)
		}
	}
}
