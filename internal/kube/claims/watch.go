// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watch follows one claim until the returned function is called: kubelet does not say which other
// pods begin to use a claim that it has prepared.
func (d *driver) watch(c *resourceapi.ResourceClaim) context.CancelFunc {
	ctx, stop := context.WithCancel(d.ctx)
	client, only := d.Client.ResourceV1().ResourceClaims(c.Namespace), fields.OneTermEqualSelector("metadata.name", c.Name).String()
	changed := func(object any) {
		if latest, ok := object.(*resourceapi.ResourceClaim); ok && latest.UID == c.UID {
			d.reserved(ctx, latest)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				o.FieldSelector = only
				return client.List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				o.FieldSelector = only
				return client.Watch(ctx, o)
			},
		}, d.Client),
		ObjectType: &resourceapi.ResourceClaim{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    changed,
			UpdateFunc: func(_, object any) { changed(object) },
		},
	})
	go informer.RunWithContext(ctx)
	return stop
}
