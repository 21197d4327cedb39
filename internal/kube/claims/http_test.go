// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// apiServer serves over HTTP what a driver asks an API server, out of one in memory; it may be
// away.
type apiServer struct {
	t      *testing.T
	client *fake.Clientset
	away   atomic.Bool
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.away.Load() {
		s.answer(w, nil, apierrors.NewServiceUnavailable("away"))
		return
	}
	ctx, query := r.Context(), r.URL.Query()
	options := metav1.ListOptions{FieldSelector: query.Get("fieldSelector")}
	follow := query.Get("watch") == "true"
	if query.Get("sendInitialEvents") != "" {
		s.answer(w, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)) // the client lists instead
		return
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/api/v1/nodes/n1":
		node, err := s.client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		s.answer(w, node, err)
	case len(path) >= 4 && path[3] == "resourceslices":
		s.slices(w, r, path[4:], follow, options)
	case len(path) >= 6 && path[5] == "resourceclaims":
		claims := s.client.ResourceV1().ResourceClaims(path[4])
		switch rest := path[6:]; {
		case follow:
			events, err := claims.Watch(ctx, options)
			s.stream(w, r, events, err)
		case len(rest) == 0:
			list, err := claims.List(ctx, options)
			s.answer(w, list, err)
		case r.Method == http.MethodPatch:
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			c, err := claims.Patch(ctx, rest[0], types.PatchType(r.Header.Get("Content-Type")), text, metav1.PatchOptions{FieldManager: query.Get("fieldManager"), Force: new(true)}, rest[1])
			s.answer(w, c, err)
		default:
			c, err := claims.Get(ctx, rest[0], metav1.GetOptions{})
			s.answer(w, c, err)
		}
	default:
		s.t.Errorf("the driver asks for %s %s", r.Method, r.URL.Path)
		http.NotFound(w, r)
	}
}

func (s *apiServer) slices(w http.ResponseWriter, r *http.Request, path []string, follow bool, options metav1.ListOptions) {
	ctx, slices := r.Context(), s.client.ResourceV1().ResourceSlices()
	var body *resourceapi.ResourceSlice
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			s.t.Errorf("body of %s: %v", r.Method, err)
			return
		}
		body = object.(*resourceapi.ResourceSlice)
	}
	switch {
	case follow:
		events, err := slices.Watch(ctx, options)
		s.stream(w, r, events, err)
	case r.Method == http.MethodPost:
		made, err := slices.Create(ctx, body, metav1.CreateOptions{})
		s.answer(w, made, err)
	case r.Method == http.MethodPut:
		made, err := slices.Update(ctx, body, metav1.UpdateOptions{})
		s.answer(w, made, err)
	case r.Method == http.MethodDelete:
		s.answer(w, &metav1.Status{Status: metav1.StatusSuccess}, slices.Delete(ctx, path[0], metav1.DeleteOptions{}))
	default:
		list, err := slices.List(ctx, options)
		s.answer(w, list, err)
	}
}

// encoded returns an object as JSON, with its kind.
func (s *apiServer) encoded(object runtime.Object) []byte {
	versions := scheme.Scheme.PrioritizedVersionsAllGroups()
	text, err := runtime.Encode(scheme.Codecs.LegacyCodec(versions...), object)
	if err != nil {
		s.t.Errorf("answer: %v", err)
	}
	return text
}

func (s *apiServer) answer(w http.ResponseWriter, object runtime.Object, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		status, known := errors.AsType[*apierrors.StatusError](err)
		if !known {
			status = apierrors.NewInternalError(err)
		}
		said := status.Status()
		said.Kind, said.APIVersion = "Status", "v1"
		w.WriteHeader(int(said.Code))
		_ = json.NewEncoder(w).Encode(said)
		return
	}
	_, _ = w.Write(s.encoded(object))
}

func (s *apiServer) stream(w http.ResponseWriter, r *http.Request, events watch.Interface, err error) {
	if err != nil {
		s.answer(w, nil, err)
		return
	}
	defer events.Stop()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-events.ResultChan():
			if s.away.Load() {
				return
			}
			_ = json.NewEncoder(w).Encode(metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: s.encoded(e.Object)}})
			_ = flush.Flush()
		}
	}
}

// TestOverHTTP: the driver with its real client, in protobuf, and an API server that goes away for
// a while: what is prepared stays, and slices and status are right when it is back.
func TestOverHTTP(t *testing.T) {
	b := newBed(t, oneLink)
	b.stopDriver()
	s := &apiServer{t: t, client: b.client}
	server := httptest.NewServer(s)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	client, err := Connect(&rest.Config{Host: server.URL, QPS: 100, Burst: 100})
	b.must(err)
	b.through = client
	b.startDriver()
	b.publishes("at the start", "eth0 100M")
	web := b.claim("web", "60M", "web")
	b.must(b.prepare(web))
	b.holds("prepared", "shop/web 60 Mbit/s")
	b.says("web", "True", "60 Mbit/s of eth0 held")
	shared := b.claim("uplink", "10M", "a")
	b.must(b.prepare(shared))
	b.holds("both", "shop/a 10 Mbit/s, shop/web 60 Mbit/s")
	b.says("uplink", "True", "held")
	b.reserve("uplink", "a", "b")
	b.holds("the watch", "claim.shop.uplink 10 Mbit/s, shop/web 60 Mbit/s")

	s.away.Store(true)
	server.CloseClientConnections()
	late := b.claim("late", "5M", "late")
	if err := b.prepare(late); err == nil || !strings.Contains(err.Error(), "away") {
		t.Errorf("prepared without an API server: %v", err)
	}
	b.must(b.unprepare(web))
	b.holds("unprepared without an API server", "claim.shop.uplink 10 Mbit/s")
	b.stopAgent()
	b.config = strings.Replace(oneLink, "100mbit", "50mbit", 1)
	b.startAgent()
	b.reserve("uplink", "b")
	s.away.Store(false)
	b.publishes("back", "eth0 50M")
	b.holds("back", "shop/b 10 Mbit/s")
	b.must(b.prepare(late))
	b.says("late", "True", "held")

	b.stopDriver()
	s.away.Store(true)
	server.CloseClientConnections()
	b.startDriver()
	b.must(b.unprepare(late))
	b.holds("given back by a driver that has not seen the API server yet", "shop/b 10 Mbit/s")
	s.away.Store(false)
	b.reserve("uplink", "a")
	b.holds("which comes back", "shop/a 10 Mbit/s")
}
