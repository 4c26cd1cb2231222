package resize

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/csirpc"

	"github.com/purser-csi/purser/internal/telemetry"
)

// marked is a driver that records whether a call is counted as migrated.
type marked struct {
	csi.ControllerClient
	handle, migrated string
}

func (m *marked) ControllerExpandVolume(
	ctx context.Context, r *csi.ControllerExpandVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerExpandVolumeResponse, error) {
	info, _ := ctx.Value(connection.AdditionalInfoKey).(connection.AdditionalInfo)
	m.handle, m.migrated = r.GetVolumeId(), info.Migrated
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: 2 << 30}, nil
}

// RZ-D3, RZ-S1, ME-4: a volume of an in-tree plugin is expanded by the driver that the plugin is
// migrated to, and the call has the label migrated.
func TestExpansionOfInTreeVolumeIsMarked(t *testing.T) {
	for name, test := range map[string]struct {
		source           corev1.PersistentVolumeSource
		handle, migrated string
	}{
		"RZ-D3: in-tree": {corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"},
		}, "vol-1", "true"},
		"RZ-D3: csi": {corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-2"},
		}, "vol-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			driver := &marked{}
			c := New(Config{
				CSI: driver, Calls: &csirpc.VolumeLocks{}, Timeout: time.Second,
				InFlight: telemetry.NewGauge(prometheus.NewRegistry(), telemetry.MetricInFlight),
			})
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeSource: test.source,
			}}
			if answer := c.call(t.Context(), pv, 2<<30); answer.Unsent != "" || answer.Failure != nil {
				t.Fatal(answer.Unsent, answer.Failure)
			}
			if driver.handle != test.handle || driver.migrated != test.migrated {
				t.Errorf("handle %q, migrated %q; want %q, %q", driver.handle, driver.migrated, test.handle, test.migrated)
			}
		})
	}
}
