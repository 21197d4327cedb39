// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"weir/internal/kube/decide"
)

// Events makes Events of type Warning at the API server, by client-go's recorder: it bounds
// their number, counts repetitions instead of making new ones, and tries again.
type Events struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents returns Events that come from a node. They are made until ctx ends.
func NewEvents(ctx context.Context, config *rest.Config, nodeName string) (*Events, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/api", &corev1.SchemeGroupVersion
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, err
	}
	e := &Events{broadcaster: record.NewBroadcaster(record.WithContext(ctx))}
	e.broadcaster.StartRecordingToSink(sink{ctx, client})
	e.recorder = e.broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "weir", Host: nodeName})
	return e, nil
}

// longestMessage is the number of bytes that the API server takes as a message.
const longestMessage = 1024

// Warn makes an Event. It does not wait for the API server.
func (e *Events) Warn(about decide.Ref, reason, message string) {
	if len(message) > longestMessage {
		message = message[:longestMessage-3] + "..."
	}
	e.recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: about.Kind, Namespace: about.Namespace, Name: about.Name, UID: types.UID(about.UID)},
		corev1.EventTypeWarning, reason, message)
}

// sink implements record.EventSink. client-go's own is in the package of all kinds of all API
// groups.
type sink struct {
	ctx    context.Context
	client rest.Interface
}

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	made := &corev1.Event{}
	return made, s.client.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(s.ctx).Into(made)
}

func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	made := &corev1.Event{}
	return made, s.client.Put().Namespace(e.Namespace).Resource("events").Name(e.Name).Body(e).Do(s.ctx).Into(made)
}

func (s sink) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	made := &corev1.Event{}
	return made, s.client.Patch(types.StrategicMergePatchType).Namespace(e.Namespace).Resource("events").Name(e.Name).Body(data).Do(s.ctx).Into(made)
}
