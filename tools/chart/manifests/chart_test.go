// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// strict decodes as an API server does with fieldValidation=Strict: an unknown or repeated field is
// an error.
var strict = serializer.NewCodecFactory(clientgoscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// objects decodes the documents of rendered templates, in the order in which they are applied.
func objects(t *testing.T, rendered map[string]string) (list []runtime.Object) {
	t.Helper()
	for _, name := range inOrder(rendered) {
		for _, document := range strings.Split(rendered[name], "\n---\n") {
			if !strings.Contains(document, "kind:") {
				continue
			}
			o, _, err := strict.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			list = append(list, o)
		}
	}
	return list
}

// values parses values as a file of them has them.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// of returns the one object of a type.
func of[T runtime.Object](t *testing.T, list []runtime.Object) T {
	t.Helper()
	var found []T
	for _, o := range list {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %v", len(found), reflect.TypeFor[T]())
	}
	return found[0]
}

// cases are values of the chart, each with what is special.
var cases = map[string]string{
	"default":         "{}",
	"no claims":       "claims: {enabled: false}",
	"second release":  "{clusterObjects: false, nodeSelector: {pool: b}, links: [{device: ens5, egress: 25gbit, ingress: 25gbit, reservable: 80%}]}",
	"cleanup":         "mode: cleanup",
	"no admission":    "admission: {enabled: false}",
	"warned only":     "admission: {actions: [Warn, Audit]}",
	"nothing guarded": "pods: {forbidden: [], restricted: []}",
	"all beyond":      "{image: {repository: r/weir, digest: 'sha256:" + strings.Repeat("a", 64) + "', pullSecrets: [s]}, security: {seLinuxType: spc_t, agentAppArmorProfile: weir}, podLabels: {a: b}, podAnnotations: {c: d}, debug: true, affinity: {nodeAffinity: {}}, update: {maxUnavailable: 3}, config: {mark_mask: '0x0fff0000', groups: {b: {max: 40mbit}}}, claims: {kubeletDir: /data/kubelet}, nriSocket: /run/crio/nri.sock, hostPaths: {run: /run/w}}",
}

// TestRendered: with each set of values all objects are what Kubernetes reads, every name that one
// has of another is there, and both containers have the least.
func TestRendered(t *testing.T) {
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			rendered, err := render("../"+chartFolder, values(t, text))
			if err != nil {
				t.Fatal(err)
			}
			list := objects(t, rendered)
			seen := map[string]bool{}
			for _, o := range list {
				m := o.(metav1.Object)
				key := o.GetObjectKind().GroupVersionKind().Kind + " " + m.GetNamespace() + "/" + m.GetName()
				if seen[key] {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = true
			}
			checkNames(t, list, !strings.Contains(text, "clusterObjects: false"))
			checkLeast(t, of[*appsv1.DaemonSet](t, list))
		})
	}
}

// checkNames holds references together: accounts, roles, policies, volumes, selectors.
func checkNames(t *testing.T, list []runtime.Object, whole bool) {
	t.Helper()
	names := map[string]bool{}
	for _, o := range list {
		names[reflect.TypeOf(o).Elem().Name()+" "+o.(metav1.Object).GetName()] = true
	}
	for _, o := range list {
		switch o := o.(type) {
		case *rbacv1.ClusterRoleBinding:
			if whole && !names["ClusterRole "+o.RoleRef.Name] || !names["ServiceAccount "+o.Subjects[0].Name] {
				t.Errorf("binding %s is of %s for %s", o.Name, o.RoleRef.Name, o.Subjects[0].Name)
			}
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			if !names["ValidatingAdmissionPolicy "+o.Spec.PolicyName] {
				t.Errorf("there is no policy %s", o.Spec.PolicyName)
			}
		case *appsv1.DaemonSet:
			pod := o.Spec.Template.Spec
			if !names["ServiceAccount "+pod.ServiceAccountName] || !names["ConfigMap "+pod.Volumes[0].ConfigMap.Name] {
				t.Errorf("account %s, configuration %s", pod.ServiceAccountName, pod.Volumes[0].ConfigMap.Name)
			}
			for k, v := range o.Spec.Selector.MatchLabels {
				if o.Spec.Template.Labels[k] != v {
					t.Errorf("the selector's %s=%s is not on the pods", k, v)
				}
			}
			volumes := map[string]int{}
			for _, v := range pod.Volumes {
				volumes[v.Name] = 0
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				for _, m := range c.VolumeMounts {
					if _, there := volumes[m.Name]; !there {
						t.Errorf("container %s: there is no volume %s", c.Name, m.Name)
					}
					volumes[m.Name]++
				}
			}
			for name, used := range volumes {
				if used == 0 {
					t.Errorf("no container mounts volume %s", name)
				}
			}
		}
	}
}

// checkLeast holds the rights of the containers to the ones that docs/kubernetes.md gives reasons
// for.
func checkLeast(t *testing.T, d *appsv1.DaemonSet) {
	t.Helper()
	pod := d.Spec.Template.Spec
	if pod.HostPID || pod.HostIPC || !pod.HostNetwork || *pod.AutomountServiceAccountToken || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: host PID %t, IPC %t, network %t, token %t", pod.HostPID, pod.HostIPC, pod.HostNetwork, *pod.AutomountServiceAccountToken)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		s := c.SecurityContext
		var want []corev1.Capability
		if c.Name == "agent" || c.Name == "cleanup" {
			want = []corev1.Capability{"BPF", "PERFMON", "NET_ADMIN", "NET_BROADCAST", "SYS_ADMIN"}
		}
		if s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Add, want) || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("container %s: %+v", c.Name, s)
		}
		for _, p := range c.Ports {
			t.Errorf("container %s opens port %d", c.Name, p.ContainerPort)
		}
		token := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "account" })
		if token != (c.Name == "kubernetes") {
			t.Errorf("container %s: has the account: %t", c.Name, token)
		}
		if steers := c.Name == "agent" || c.Name == "kubernetes"; steers != (c.ReadinessProbe != nil) || steers != (c.LivenessProbe != nil) {
			t.Errorf("container %s: probes %v, %v", c.Name, c.ReadinessProbe, c.LivenessProbe)
		}
	}
}

// TestWhatValuesChange: the values reach the place that they are of.
func TestWhatValuesChange(t *testing.T) {
	rendered, err := render("../"+chartFolder, values(t, cases["all beyond"]))
	if err != nil {
		t.Fatal(err)
	}
	list := objects(t, rendered)
	d := of[*appsv1.DaemonSet](t, list)
	agent, node := d.Spec.Template.Spec.Containers[0], d.Spec.Template.Spec.Containers[1]
	if agent.Image != "r/weir@sha256:"+strings.Repeat("a", 64) || node.Image != agent.Image {
		t.Errorf("images %s, %s", agent.Image, node.Image)
	}
	if got := d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(); got != "3" {
		t.Errorf("maxUnavailable %s", got)
	}
	if p := agent.SecurityContext.AppArmorProfile; *p.LocalhostProfile != "weir" || agent.SecurityContext.SELinuxOptions.Type != "spc_t" {
		t.Errorf("%+v, %+v", p, agent.SecurityContext.SELinuxOptions)
	}
	if want := []string{"--nri-socket=/run/crio/nri.sock", "--weights=guaranteed=3,burstable=2,besteffort=1", "--forbid=dscp,zones,quota,when,ingress.dscp,ingress.zones,ingress.when",
		"--restrict=min,ingress.min,reserve,ingress.reserve,when,ingress.when", "--max-weight=100", "--kubelet-dir=/data/kubelet",
		"--probe-socket=/run/weir-kubernetes/probe.sock", "--debug"}; !slices.Equal(node.Args, want) {
		t.Errorf("%q, want %q", node.Args, want)
	}
	if text := of[*corev1.ConfigMap](t, list).Data["weir.yaml"]; !strings.Contains(text, `mark_mask: "0x0fff0000"`) || !strings.Contains(text, "max: 40mbit") {
		t.Errorf("weir.yaml has\n%s", text)
	}
	if class := of[*resourcev1.DeviceClass](t, list); class.Name != "link.weir.dev" {
		t.Errorf("class %s", class.Name)
	}
}

// TestWrongValues: the schema refuses each, and names it.
func TestWrongValues(t *testing.T) {
	for text, named := range map[string]string{
		"imgae: {}":                                           "imgae",
		"image: {tag: 3}":                                     "/image/tag",
		"image: {digest: abc}":                                "/image/digest",
		"image: {repository: ''}":                             "/image/repository",
		"links: eth0":                                         "/links",
		"links: [{device: eth0}]":                             "egress",
		"links: [{device: eth0, egress: 100}]":                "/links/0/egress",
		"links: [{device: eth0, egress: fast}]":               "/links/0/egress",
		"links: [{device: eth0, egress: 1gbit, rate: 1}]":     "rate",
		"links: [{device: a-name-of-20-letters, egress: 1M}]": "/links/0/device",
		"links: []":                                           "links: is empty; name the device",
		"config: {mark_mask: 0x0fff0000}":                     "/config/mark_mask",
		"mode: off":                                           "/mode",
		"config: {links: []}":                                 "links",
		"config: {socket: /tmp/s}":                            "socket",
		"pods: {forbidden: [mim]}":                            "/pods/forbidden/0",
		"pods: {restricted: min}":                             "/pods/restricted",
		"pods: {weights: {guaranteed: 0}}":                    "/pods/weights/guaranteed",
		"pods: {weights: {guaranteed: 10001}}":                "/pods/weights/guaranteed",
		"pods: {weights: {best: 1}}":                          "best",
		"admission: {actions: [Refuse]}":                      "/admission/actions/0",
		"admission: {actions: []}":                            "/admission/actions",
		"update: {maxUnavailable: 0}":                         "/update/maxUnavailable",
		"update: {maxUnavailable: 120%}":                      "/update/maxUnavailable",
		"nriSocket: nri.sock":                                 "/nriSocket",
		"claims: {enabled: 'yes'}":                            "/claims/enabled",
		"hostPaths: {state: var}":                             "/hostPaths/state",
		"resources: {agent: {limit: {}}}":                     "limit",
		"tolerations: [NoSchedule]":                           "/tolerations/0",
		"nodeSelector: {a: 1}":                                "/nodeSelector/a",
		"debug: maybe":                                        "/debug",
		"clusterObjects: 1":                                   "/clusterObjects",
		"security: {privileged: true}":                        "privileged",
	} {
		_, err := render("../"+chartFolder, values(t, text))
		if got := fmt.Sprint(err); err == nil || !strings.Contains(got, named) {
			t.Errorf("%s: %s; want %q in it", text, got, named)
		}
	}
}

// TestPlain: the plain manifests are what the chart gives.
func TestPlain(t *testing.T) {
	files, err := plain("../" + chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		have, err := os.ReadFile("../" + manifestFolder + "/" + name)
		if err != nil || string(have) != string(want) {
			t.Errorf("%s is not what the chart gives (%v); run make manifests", name, err)
		}
		for _, document := range strings.Split(string(want), "\n---\n") {
			if _, _, err := strict.Decode([]byte(document), nil, nil); err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
		}
	}
}
