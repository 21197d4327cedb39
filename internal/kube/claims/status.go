// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	applyresource "k8s.io/client-go/applyconfigurations/resource/v1"

	"weir/internal/kube/claims/translate"
)

// unwritten is a claim with a status that differs from the one that the API server has.
type unwritten struct {
	claim   *resourceapi.ResourceClaim
	devices []resourceapi.AllocatedDeviceStatus // of this driver
	merged  []resourceapi.AllocatedDeviceStatus // of all
}

// unwritten returns the claims whose status has to be written now.
func (d *driver) unwritten() []unwritten {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []unwritten
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	for uid, known := range d.claims {
		if known.unseen || !known.write.due(now.Time) {
			continue
		}
		heard := translate.Heard{Allocation: d.held[uid], Gone: d.gone, Refused: known.refused}
		present := known.latest.Status.Devices
		devices := translate.Status(known.asked, heard, present, now)
		if merged, changed := translate.Merge(present, devices, d.Node); changed {
			list = append(list, unwritten{known.latest, devices, merged})
		}
	}
	return list
}

// write writes the devices of this driver into a claim's status, by an apply that leaves those of
// others alone.
func (d *driver) write(ctx context.Context, u unwritten) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status := applyresource.ResourceClaimStatus()
	for _, device := range u.devices {
		entry := applyresource.AllocatedDeviceStatus().WithDriver(device.Driver).WithPool(device.Pool).WithDevice(device.Device).
			WithData(*device.Data).WithNetworkData(applyresource.NetworkDeviceData().WithInterfaceName(device.NetworkData.InterfaceName))
		if device.ShareID != nil {
			entry = entry.WithShareID(*device.ShareID)
		}
		for _, c := range device.Conditions {
			entry = entry.WithConditions(applymeta.Condition().WithType(c.Type).WithStatus(c.Status).WithReason(c.Reason).
				WithMessage(c.Message).WithLastTransitionTime(c.LastTransitionTime))
		}
		status = status.WithDevices(entry)
	}
	apply := applyresource.ResourceClaim(u.claim.Name, u.claim.Namespace).WithUID(u.claim.UID).WithStatus(status)
	_, err := d.Client.ResourceV1().ResourceClaims(u.claim.Namespace).ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: translate.Driver, Force: true})
	d.wrote(u, err)
}

// wrote notes what became of a status. One of a claim that is gone or was replaced is not written
// again: kubelet unprepares the claim.
func (d *driver) wrote(u unwritten, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.claims[u.claim.UID]
	switch {
	case known == nil:
	case err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		known.write = pause{}
		known.latest = known.latest.DeepCopy()
		known.latest.Status.Devices = u.merged
	default:
		known.write.failed(time.Now())
		d.Log.Warn("status of a claim cannot be written", "claim", types.NamespacedName{Namespace: u.claim.Namespace, Name: u.claim.Name}, "err", err)
	}
}
