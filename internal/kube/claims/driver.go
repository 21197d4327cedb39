// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"weir/internal/api"
	"weir/internal/kube/claims/translate"
)

// Agent is the part of api.Client that a driver needs.
type Agent interface {
	Status(ctx context.Context) (api.Status, error)
	Allocations(ctx context.Context) ([]api.Allocation, error)
	Allocate(ctx context.Context, name string, req api.AllocationRequest, dryRun bool) (api.ChangeResult, error)
	Release(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error)
}

// DefaultKubelet is where kubelet has its folder by default.
const DefaultKubelet = "/var/lib/kubelet"

// Options are what a driver needs.
type Options struct {
	Node   string               // name of the node, and of its pool of devices
	Client kubernetes.Interface // of the API server
	Agent  Agent
	// Kubelet is kubelet's folder, DefaultKubelet by default; the driver has sockets in it.
	Kubelet string
	// PodUID is that of the pod which this program runs in, with which two of them may take
	// turns at an upgrade; "" = it is the only one.
	PodUID string
	// Ports returns what the host says of network devices; nil = nothing.
	Ports func(devices []string) map[string]translate.Port
	// Registered is told when kubelet has taken the driver; nil = that does not matter.
	Registered func()
	Log        *slog.Logger

	// Poll is how often the agent is asked how it is, by its socket; 2 s by default. Patience
	// is for how long it may fail to answer before its links count as gone; 5 s by default.
	Poll, Patience time.Duration
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	if o.Kubelet == "" {
		o.Kubelet = DefaultKubelet
	}
	if o.Ports == nil {
		o.Ports = func([]string) map[string]translate.Port { return nil }
	}
	if o.Registered == nil {
		o.Registered = func() {}
	}
	if o.Poll == 0 {
		o.Poll = 2 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Second
	}
	o.Log = o.Log.With("component", "claims")
	return o
}

// driver is the DRA driver. The lock is held over calls of the agent, so that what it answers is
// not older than what the driver knows; never over calls of the API server.
type driver struct {
	Options
	ctx    context.Context // of Run
	fatal  func(error)     // ends Run
	helper *kubeletplugin.Helper
	// taken says that kubelet has registered the driver.
	taken atomic.Bool
	// changed has an entry after a change of offered.
	changed chan struct{}

	mu      sync.Mutex
	links   []api.LinkStatus       // as the agent said last; nil = it has not
	gone    bool                   // it has not answered for Patience
	seen    time.Time              // when it answered last, or the driver began
	zone    *string                // of the node; nil = not read yet
	offered [][]resourceapi.Device // the slices that there should be
	lacks   lacks
	claims  map[types.UID]*claim          // that are prepared
	held    map[types.UID]*api.Allocation // by the agent, a moment ago
	swept   time.Time                     // when allocations without a claim were looked for last
	health  []chan struct{}               // of those who wait for a change of links
}

// lacks is what the API server does not know of a ResourceSlice.
type lacks struct{ taints, capacity bool }

// Run serves kubelet until ctx ends.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	ctx, fatal := context.WithCancelCause(ctx)
	defer fatal(nil)
	d := &driver{Options: o, ctx: ctx, fatal: fatal, changed: make(chan struct{}, 1), seen: time.Now(), claims: map[types.UID]*claim{}}
	data, registry := filepath.Join(o.Kubelet, "plugins", translate.Driver), filepath.Join(o.Kubelet, "plugins_registry")
	for _, folder := range []string{data, registry} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return fmt.Errorf("kubelet's folder: %w; mount it into the pod, or give --kubelet-dir", err)
		}
	}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(translate.Driver), kubeletplugin.NodeName(o.Node), kubeletplugin.KubeClient(o.Client),
		kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(registry),
		kubeletplugin.RollingUpdate(types.UID(o.PodUID)), kubeletplugin.GRPCInterceptor(d.heard))
	if err != nil {
		return fmt.Errorf("DRA driver: %w", err)
	}
	d.helper = helper
	defer helper.Stop()

	var done sync.WaitGroup
	done.Go(func() { d.followClaims(ctx) })
	done.Go(func() { d.publish(ctx) })
	d.followAgent(ctx)
	done.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("DRA driver: %w", cause)
	}
	return nil
}

// heard notes whether kubelet has registered the driver. The helper's own RegistrationStatus must
// not be read while kubelet says it.
func (d *driver) heard(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if s, ok := req.(*registration.RegistrationStatus); ok {
		d.taken.Store(s.PluginRegistered)
	}
	return handle(ctx, req)
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *driver) PrepareResourceClaims(ctx context.Context, list []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range list {
		asked, err := d.prepare(ctx, c)
		if err != nil {
			d.Log.Warn("claim cannot be prepared", "claim", c.Namespace+"/"+c.Name, "err", err)
			results[c.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		var devices []kubeletplugin.Device
		for _, share := range asked.Devices {
			devices = append(devices, kubeletplugin.Device{Requests: []string{share.Request}, PoolName: share.Pool, DeviceName: share.Device, ShareID: share.ShareID})
		}
		results[c.UID] = kubeletplugin.PrepareResult{Devices: devices}
	}
	return results, nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *driver) UnprepareResourceClaims(ctx context.Context, list []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, c := range list {
		results[c.UID] = d.unprepare(ctx, c.UID)
		if err := results[c.UID]; err != nil {
			d.Log.Warn("claim cannot be given back", "claim", c.String(), "err", err)
		}
	}
	return results, nil
}

// HandleError implements kubeletplugin.DRAPlugin.
func (d *driver) HandleError(_ context.Context, err error, msg string) {
	if dropped, ok := errors.AsType[*resourceslice.DroppedFieldsError](err); ok {
		d.dropped(dropped.DisabledFeatures())
		return
	}
	d.Log.Error(msg, "err", err)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.fatal(err)
	}
}

// dropped notes which features the API server does not have. Without consumable capacity one claim
// would take a whole link, so no link is published; without taints no link is that has one.
func (d *driver) dropped(features []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.lacks
	d.lacks.taints = d.lacks.taints || slices.Contains(features, "DRADeviceTaints")
	d.lacks.capacity = d.lacks.capacity || slices.Contains(features, "DRAConsumableCapacity")
	if d.lacks != before {
		d.Log.Error("the API server drops a part of the links' description; mins by claims need Kubernetes 1.36 or later", "features", features)
	}
}

// WatchHealthStatus implements kubeletplugin.DRAPlugin: kubelet shows the state of links in the
// status of pods that have a claim to one.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	changed := make(chan struct{}, 1)
	d.mu.Lock()
	d.health = append(d.health, changed)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.health = slices.DeleteFunc(d.health, func(c chan struct{}) bool { return c == changed })
	}()
	// Kubelet takes a report for 30 s.
	again := time.NewTicker(10 * time.Second)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case reports <- d.healthReport():
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		case <-changed:
		}
	}
}

func (d *driver) healthReport() kubeletplugin.DeviceHealthReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	var report kubeletplugin.DeviceHealthReport
	for _, device := range translate.Devices(translate.Inventory{Links: d.links, Gone: d.gone}) {
		h := kubeletplugin.DeviceHealth{PoolName: d.Node, DeviceName: device.Name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: d.seen}
		for _, taint := range device.Taints {
			h.Health, h.Message = kubeletplugin.HealthStatusUnhealthy, taint.Key+": "+taint.Value
			if taint.Key == translate.TaintAgent {
				h.Health = kubeletplugin.HealthStatusUnknown
			}
		}
		report.Devices = append(report.Devices, h)
	}
	return report
}
