package provision

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// told is a driver that records the parameters of its calls.
type told struct {
	csi.ControllerClient
	parameters map[string]string
}

func (d *told) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest, _ ...grpc.CallOption) (*csi.CreateVolumeResponse, error) {
	d.parameters = r.GetParameters()
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "h"}}, nil
}

// U-51: the labels of the namespace are read if they are passed to the driver; if that fails, an
// event names the cause.
func TestNamespaceLabelsGoToTheDriver(t *testing.T) {
	r := newRig(t, withoutSecrets)
	d := &told{}
	r.CSI = d
	r.Options.DriverMetadata = []provision.MetadataKey{{Source: provision.NamespaceLabel, Key: "team"}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.key.Namespace, Labels: map[string]string{"team": "crew"}}}
	if err := r.api.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	r.refuse = func(o client.Object) error {
		if _, is := o.(*corev1.Namespace); is {
			return apierrors.NewForbidden(corev1.Resource("namespaces"), namespace.Name, nil)
		}
		return nil
	}
	r.run(t)
	if said := strings.Join(r.events, "\n"); d.parameters != nil || !strings.Contains(said, "Warning ProvisioningFailed") || !strings.Contains(said, "resources [namespaces]") {
		t.Errorf("U-51 forbidden: told %v, %q", d.parameters, said)
	}
	r.refuse = nil
	r.clock.Step(time.Hour)
	r.run(t)
	if d.parameters["purser/namespace-label/team"] != "crew" {
		t.Errorf("U-51: told %v", d.parameters)
	}
}
