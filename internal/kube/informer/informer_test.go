// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"log/slog"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	clienttest "k8s.io/client-go/testing"

	"weir/internal/kube/decide"
	"weir/internal/kube/node"
)

// seen counts what a Sink is told.
type seen struct{ pods, known atomic.Int64 }

func (s *seen) SetPod(node.Meta)                                          { s.pods.Add(1) }
func (s *seen) DeletePod(node.Meta)                                       {}
func (s *seen) SetNamespace(string, map[string]string, map[string]string) {}
func (s *seen) DeleteNamespace(string)                                    {}
func (s *seen) ClusterKnown()                                             { s.known.Add(1) }

// TestReturnOfTheAPIServer: an API server that nothing can be sent to for five minutes, at the
// start or later, is followed again within five seconds of its return, and meanwhile is asked no
// more than once a second on average.
func TestReturnOfTheAPIServer(t *testing.T) {
	const name = "b"
	// They pause by a clock that is not the bubble's.
	defer func(handlers []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = handlers }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	pod := func(weight string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Annotations: map[string]string{decide.Prefix + "weight": weight}}}
	}
	for _, tt := range []struct {
		what  string
		there bool // at the start
	}{{"away at the start", false}, {"away later", true}} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				if err := metav1.AddMetaToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				client := fake.NewSimpleMetadataClient(scheme, pod("1"))
				var there atomic.Bool
				var asked atomic.Int64
				there.Store(tt.there)
				watches := make(chan watch.Interface, 1000)
				refused := &url.Error{Op: "Get", URL: "https://127.0.0.1:6443", Err: syscall.ECONNREFUSED}
				client.PrependReactor("list", "*", func(clienttest.Action) (bool, runtime.Object, error) {
					if there.Load() {
						return false, nil, nil
					}
					asked.Add(1)
					return true, nil, refused
				})
				client.PrependWatchReactor("*", func(a clienttest.Action) (bool, watch.Interface, error) {
					if !there.Load() {
						asked.Add(1)
						return true, nil, refused
					}
					w, err := client.Tracker().Watch(a.GetResource(), a.GetNamespace())
					if err == nil {
						watches <- w
					}
					return true, w, err
				})
				ctx, cancel := context.WithCancel(t.Context())
				n, done := &seen{}, make(chan error)
				go func() { done <- Run(ctx, client, "n1", n, slog.New(slog.DiscardHandler)) }()
				time.Sleep(10 * time.Second)
				if tt.there {
					if n.pods.Load() != 1 || n.known.Load() != 1 {
						t.Errorf("at the start %d pods are known", n.pods.Load())
					}
					there.Store(false)
					for range len(watches) {
						(<-watches).Stop()
					}
				}
				before := n.pods.Load()
				time.Sleep(5 * time.Minute)
				if a := asked.Load(); a < 10 || a > 310 {
					t.Errorf("asked %d times in 310 s", a)
				}
				there.Store(true)
				// The fake keeps no history: who watches later does not hear of an
				// earlier change.
				time.Sleep(4 * time.Second)
				if err := client.Tracker().Update(pods, pod("3"), "shop"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if n.pods.Load() <= before || n.known.Load() != 1 {
					t.Errorf("5 s after its return: told of %d pods, %d before", n.pods.Load(), before)
				}
				cancel()
				<-done
			})
		})
	}
}
