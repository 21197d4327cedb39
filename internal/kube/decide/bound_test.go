// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/core/policy/texts"
	"weir/internal/test/boundtest"
)

// shop returns a world with a pod web-0 with annotations and a pod web-1 with weight 7.
func shop(annotations map[string]string) NodeInput {
	return NodeInput{Texts: &texts.Kept{}, Pods: []Pod{{Namespace: "shop", Name: "web-0", Annotations: annotations},
		{Namespace: "shop", Name: "web-1", Annotations: map[string]string{"weir.dev/weight": "7"}}}}
}

// TestAnnotationsAreBounded: an annotation that is too long, too deep or one too many costs
// nothing but itself, and the fault says by how much.
func TestAnnotationsAreBounded(t *testing.T) {
	many := map[string]string{}
	for i := range bound.Labels + 1 {
		many[fmt.Sprintf("weir.dev/a%03d", i)] = "x"
	}
	for _, tt := range []struct {
		annotations map[string]string
		want        string
	}{
		{map[string]string{"weir.dev/queues": strings.Repeat("[", 16<<10)}, "16384 bytes, 4096 are the most; write less"},
		{map[string]string{"weir.dev/queues": strings.Repeat("[", bound.Label)}, "4096 levels, 8 are the most"},
		{many, "101 annotations of Weir's, 100 are the most: none behind this one counts"},
	} {
		d := Decide(shop(tt.annotations))
		if len(d.Faults) == 0 || !strings.Contains(d.Faults[0].Err.Error(), tt.want) {
			t.Errorf("%v, want %s", d.Faults, tt.want)
		}
		if w := d.Workloads[1].Change.To().Weight; w != 7 {
			t.Errorf("the other pod has weight %d", w)
		}
	}
}

// TestSecondPassParsesNothing: what annotations say is kept by their text.
func TestSecondPassParsesNothing(t *testing.T) {
	w := shop(map[string]string{"weir.dev/queues": "{a: {}, b: {}}", "weir.dev/min": "x"})
	Decide(w)
	if w.Texts.Parsed != 3 {
		t.Fatalf("%d texts were parsed, 3 are there", w.Texts.Parsed)
	}
	if Decide(w); w.Texts.Parsed != 3 {
		t.Errorf("%d texts were parsed again", w.Texts.Parsed-3)
	}
}

// TestHostileAnnotations: one pass over a pod costs what one input may, however its annotations
// look.
func TestHostileAnnotations(t *testing.T) {
	for _, name := range []string{"weir.dev/queues", "weir.dev/when", "weir.dev/quota", "weir.dev/zones", "weir.dev/group", "kubernetes.io/egress-bandwidth"} {
		for _, length := range []int{bound.Label, 256 << 10} { // what the API server takes
			for _, shape := range boundtest.Shapes(length) {
				boundtest.Hold(t, func() {
					if d := Decide(shop(map[string]string{name: shape})); d.Workloads[1].Change.To().Weight != 7 {
						t.Error("the other pod has no weight")
					}
				})
				if t.Failed() {
					t.Fatalf("%s: %.40q, %d bytes", name, shape, length)
				}
			}
		}
	}
}

// TestDrawnAnnotations: 10,000 pods with annotations drawn at random, ten in a pass beside one
// whose annotation is right. None costs more than one input may, and the one has its weight.
func TestDrawnAnnotations(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 2))
	names := append(policy.AllNames(), "nosuch")
	for range 1000 {
		w := shop(nil)
		w.Pods = w.Pods[1:]
		for i := range 10 {
			annotations := map[string]string{"kubernetes.io/egress-bandwidth": boundtest.Draw(r, 100)}
			for name, text := range boundtest.Named(r, names, 50<<10) {
				annotations[Annotation(name)] = text
			}
			w.Pods = append(w.Pods, Pod{Namespace: "shop", Name: fmt.Sprintf("a%d", i), Annotations: annotations})
		}
		boundtest.Hold(t, func() {
			w.Texts = &texts.Kept{}
			if d := Decide(w); len(d.Workloads) != 11 || d.Workloads[10].Change.To().Weight != 7 {
				t.Errorf("%d workloads, weight %d", len(d.Workloads), d.Workloads[10].Change.To().Weight)
			}
		})
		if t.Failed() {
			t.Fatalf("%.300s", fmt.Sprintf("%+q", fmt.Sprint(w.Pods)))
		}
	}
}
