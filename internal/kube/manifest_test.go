// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/kube/decide"
)

// manifest returns the one object of a kind in deploy/kubernetes/weir.yaml.
func manifest[T any](t *testing.T, kind string) (o T) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains("\n"+document, "\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
				t.Fatal(err)
			}
			return o
		}
	}
	t.Fatalf("there is no %s", kind)
	return o
}

// TestManifestFitsPrograms: the configuration and the arguments of the plain manifests are what the
// programs take.
func TestManifestFitsPrograms(t *testing.T) {
	c, err := config.Parse("", []byte(manifest[corev1.ConfigMap](t, "ConfigMap").Data["weir.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Links) != 1 || c.Links[0].Device != "eth0" || c.Docker.Enabled {
		t.Errorf("%+v", c)
	}
	pod := manifest[appsv1.DaemonSet](t, "DaemonSet").Spec.Template.Spec
	t.Setenv("NODE_NAME", "n1")
	for _, container := range pod.Containers {
		if container.Name != "kubernetes" {
			continue
		}
		o, err := parse(container.Args)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := parse(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(o.Forbidden, plain.Forbidden) || fmt.Sprint(o.Weights) != fmt.Sprint(plain.Weights) || o.kubelet != plain.kubelet || o.runtime != plain.runtime {
			t.Errorf("the defaults of the chart %+v are not the program's %+v", o.Config, plain.Config)
		}
		for _, probe := range []*corev1.Probe{container.ReadinessProbe, container.LivenessProbe} {
			asked, err := parse(probe.Exec.Command[1:])
			if err != nil || asked.ask == "" || asked.probes != o.probes {
				t.Errorf("%q: %v", probe.Exec.Command, err)
			}
		}
	}
}

// TestManifestKnowsAnnotations: the admission policies know exactly the annotations that the
// program reads, and the schema of the chart's values has all fields.
func TestManifestKnowsAnnotations(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	list := func(fields []string) string {
		var names []string
		for _, f := range fields {
			names = append(names, "'"+decide.Annotation(f)+"'")
		}
		return "!(k in [" + strings.Join(names, ", ") + "])"
	}
	text := read("../../deploy/kubernetes/weir.yaml")
	for where, want := range map[string]string{"pods": list(policy.AllNames()), "namespaces": list(policy.FieldNames(policy.OnGroup))} {
		if !strings.Contains(text, want) {
			t.Errorf("deploy/kubernetes/weir.yaml: %s may not say %s", where, want)
		}
	}
	schema := read("../../deploy/helm/weir/values.schema.json")
	for _, f := range policy.AllNames() {
		if !strings.Contains(schema, `"`+f+`"`) {
			t.Errorf("values.schema.json has no field %s", f)
		}
	}
}
