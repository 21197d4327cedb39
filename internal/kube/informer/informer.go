// SPDX-License-Identifier: Apache-2.0

// Package informer follows the metadata of this node's pods and of all namespaces at the API
// server, and makes Events. It asks for metadata alone: annotations are all that is needed,
// and a node with 250 pods has a quarter of a megabyte of them.
package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"weir/internal/base/retry"
	"weir/internal/kube/decide"
	"weir/internal/kube/node"
)

// Annotations of the kubelet's.
const mirrorOf = "kubernetes.io/config.mirror" // in the mirror of a static pod: the UID that the runtime knows it by

var (
	pods       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// Config says where the API server is: as a kubeconfig says, or of the cluster that this
// program runs in.
func Config(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("API server: %w; give --kubeconfig FILE outside of a cluster", err)
	}
	config.Dial = (&net.Dialer{Timeout: longestDial, KeepAlive: 30 * time.Second}).DialContext
	return rest.AddUserAgent(config, "weir-kubernetes"), nil
}

// Sink takes what is learnt.
type Sink interface {
	SetPod(m node.Meta)
	DeletePod(m node.Meta)
	SetNamespace(name string, annotations, labels map[string]string)
	DeleteNamespace(name string)
	ClusterKnown()
}

// Run follows the pods of a node, and the namespaces, until ctx ends. What is known stays
// known while the API server is away.
func Run(ctx context.Context, client metadata.Interface, nodeName string, n Sink, log *slog.Logger) error {
	ofNode := fields.OneTermEqualSelector("spec.nodeName", nodeName).String()
	podInformer := follow(client, pods, ofNode)
	namespaceInformer := follow(client, namespaces, "")
	podsKnown, err := podInformer.AddEventHandler(handler(func(o *metav1.PartialObjectMetadata) { n.SetPod(meta(o)) },
		func(o *metav1.PartialObjectMetadata) { n.DeletePod(meta(o)) }))
	if err != nil {
		return err
	}
	namespacesKnown, err := namespaceInformer.AddEventHandler(handler(func(o *metav1.PartialObjectMetadata) { n.SetNamespace(o.Name, o.Annotations, o.Labels) },
		func(o *metav1.PartialObjectMetadata) { n.DeleteNamespace(o.Name) }))
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { podInformer.RunWithContext(ctx) })
	running.Go(func() { namespaceInformer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), podsKnown.HasSynced, namespacesKnown.HasSynced) {
		return ctx.Err()
	}
	log.Info("API server is there", "pods", len(podInformer.GetStore().ListKeys()))
	n.ClusterKnown()
	<-ctx.Done()
	return ctx.Err()
}

// follow returns an informer of the metadata of objects, of those that fields select.
func follow(client metadata.Interface, what schema.GroupVersionResource, selected string) cache.SharedIndexInformer {
	list := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selected
			return untilAnswered(ctx, func() (runtime.Object, error) { return client.Resource(what).List(ctx, o) })
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selected
			return untilAnswered(ctx, func() (watch.Interface, error) { return client.Resource(what).Watch(ctx, o) })
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(list, client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	_ = informer.SetTransform(slim) // which fails only once it has been started
	return informer
}

// longestPause is between two requests while nothing answers; client-go would let it grow to a
// minute, in which a new annotation does not count. longestDial is how long a connection may take.
const longestPause, longestDial = 3 * time.Second, 4 * time.Second

// untilAnswered repeats a request until the API server answers, or ctx ends. What it answers is
// left to client-go: it takes its time where a server is overloaded.
func untilAnswered[T any](ctx context.Context, request func() (T, error)) (T, error) {
	pauses := retry.New(500*time.Millisecond, longestPause)
	for {
		answer, err := request()
		if answered := errors.As(err, new(apierrors.APIStatus)); err == nil || answered || !pauses.Wait(ctx) {
			return answer, err
		}
	}
}

// slim drops what is not needed of an object: most of its metadata says who wrote which field.
func slim(o any) (any, error) {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	annotations := map[string]string{}
	for name, value := range m.Annotations {
		if _, standard := decide.Bandwidth[name]; standard || strings.HasPrefix(name, decide.Prefix) || name == mirrorOf {
			annotations[name] = value
		}
	}
	labels := map[string]string{}
	for name, value := range m.Labels {
		if strings.HasPrefix(name, decide.AllowPrefix) {
			labels[name] = value
		}
	}
	return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{Labels: labels,
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Annotations: annotations}}, nil
}

func meta(o *metav1.PartialObjectMetadata) node.Meta {
	return node.Meta{Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), Static: o.Annotations[mirrorOf], Annotations: o.Annotations}
}

func handler(set, gone func(*metav1.PartialObjectMetadata)) cache.ResourceEventHandler {
	call := func(f func(*metav1.PartialObjectMetadata), o any) {
		if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if m, ok := o.(*metav1.PartialObjectMetadata); ok {
			f(m)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { call(set, o) },
		UpdateFunc: func(_, o any) { call(set, o) },
		DeleteFunc: func(o any) { call(gone, o) },
	}
}
