package live

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/rolestest"
)

const crossNamespace = "--feature-gates=CrossNamespaceVolumeDataSource=true"

// newGranter returns a cluster whose API server has claims with sources in other namespaces
// enabled, and a provisioner with the optional permission to read ReferenceGrants. The CRD of
// ReferenceGrants is not installed yet.
func newGranter(t *testing.T, d *copier) copying {
	t.Helper()
	p := newLiveClusterOn(t, rolestest.StartServer(t, cluster.Config{
		ExtraArgs: map[cluster.Component][]string{cluster.APIServer: {crossNamespace}},
	}))
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "csi-provisioner-grants.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(t.Context(), manifest.Name(), manifest); err != nil {
		t.Fatal(err)
	}
	p.create(&corev1.Namespace{ObjectMeta: metav1Name("crew")})
	return copierOn(p, d, d.name, crossNamespace)
}

// grantKind installs the CRD of ReferenceGrants.
func (c copying) grantKind() {
	c.Helper()
	if err := c.server.Install(c.Context(), filepath.Join("testdata", "referencegrants.yaml")); err != nil {
		c.Fatal(err)
	}
}

// grant creates a ReferenceGrant from claims in the namespace crew to objects of one kind in the
// namespace default.
func (c copying) grant(name, group, kind string) *unstructured.Unstructured {
	c.Helper()
	g := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": names.GatewayGroup + "/v1beta1", "kind": "ReferenceGrant",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec": map[string]any{
			"from": []any{map[string]any{"group": "", "kind": "PersistentVolumeClaim", "namespace": "crew"}},
			"to":   []any{map[string]any{"group": group, "kind": kind}},
		},
	}}
	c.create(g)
	return g
}

// crewClaim creates a claim in the namespace crew with a source in the namespace default.
func (c copying) crewClaim(name string, from *corev1.TypedObjectReference) *corev1.PersistentVolumeClaim {
	c.Helper()
	from.Namespace = new("default")
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("deck"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, DataSourceRef: from,
			Resources: corev1.VolumeResourceRequirements{Requests: mebibyte},
		},
	}
	c.create(claim)
	return claim
}

var mebibyte = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}

// notGranted waits for the event that names the missing grant.
func (c copying) notGranted(claim *corev1.PersistentVolumeClaim) {
	c.Helper()
	rolestest.Eventually(c.T, "the missing grant is reported", func() error {
		var events corev1.EventList
		if err := c.user.List(c.Context(), &events, client.InNamespace(claim.Namespace)); err != nil {
			return err
		}
		for i := range events.Items {
			e := &events.Items[i]
			if e.InvolvedObject.UID == claim.UID && e.Reason == "ProvisioningFailed" && strings.Contains(e.Message, "ReferenceGrant") {
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(events.Items))
	})
}

// H-38: a restore and a clone from another namespace wait with an event, first for
// the CRD of ReferenceGrants and then for a grant, and are provisioned when it exists.
func TestSourcesInOtherNamespaces(t *testing.T) {
	d := &copier{scriptedDriver: scriptedDriver{name: "copy.example"}}
	c := newGranter(t, d)
	c.ready("shot", d.name)
	data := c.claimOf("data", "1Mi", nil)
	await(c.liveCluster, "the source is bound", data, isBound)
	restored := c.crewClaim("restored", fromSnapshot("shot"))
	c.notGranted(restored)
	c.grantKind()
	cloned := c.crewClaim("cloned", fromClaim("data"))
	c.notGranted(cloned)
	if n := d.called("CreateVolume"); n != 1 {
		t.Fatalf("R-83: %d calls of CreateVolume without a grant, want that of the source alone", n)
	}
	c.grant("snapshots", names.SnapshotGroup, "VolumeSnapshot")
	await(c.liveCluster, "restored", restored, isBound)
	if got := d.last().GetVolumeContentSource().GetSnapshot().GetSnapshotId(); got != "handle-shot" {
		t.Errorf("R-80: made from snapshot %q", got)
	}
	c.grant("claims", "", "PersistentVolumeClaim")
	await(c.liveCluster, "cloned", cloned, isBound)
	if got := d.last().GetVolumeContentSource().GetVolume().GetVolumeId(); !strings.HasPrefix(got, "vol-") {
		t.Errorf("R-80: made from volume %q", got)
	}
	c.remove(restored, cloned, data)
	c.nothingOf(restored, cloned, data)
}

// H-46: the driver creates a volume, its answer is lost, and the grant is revoked. If the claim
// stays, it gets that volume. If the claim is deleted, the volume is found and deleted.
func TestRevokedGrantLosesNoVolume(t *testing.T) {
	for name, deleted := range map[string]bool{"H-46: the claim stays": false, "H-46: the claim is deleted": true} {
		t.Run(name, func(t *testing.T) {
			d := &copier{scriptedDriver: scriptedDriver{name: "copy.example"}}
			called, goOn := make(chan struct{}, 1000), make(chan struct{}) // room for all retries
			d.create = func(r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
				called <- struct{}{}
				select {
				case <-goOn:
					return made(r)
				default: // it is made as well
					return nil, status.Error(codes.DeadlineExceeded, "the answer is late")
				}
			}
			c := newGranter(t, d)
			c.grantKind()
			c.ready("shot", d.name)
			grant := c.grant("snapshots", names.SnapshotGroup, "VolumeSnapshot")
			claim := c.crewClaim("restored", fromSnapshot("shot"))
			<-called
			if err := c.user.Delete(t.Context(), grant); err != nil {
				t.Fatal(err)
			}
			if deleted {
				c.remove(claim)
			}
			<-called // at the earliest the second call, of which the first came before the grant went
			close(goOn)
			handle := "vol-pvc-" + string(claim.UID)
			if !deleted {
				await(c.liveCluster, "restored", claim, isBound)
				c.remove(claim)
			}
			rolestest.Eventually(t, "the volume is deleted", func() error {
				d.mu.Lock()
				defer d.mu.Unlock()
				if !slices.Contains(d.deleted, handle) {
					return errors.Join(errors.New("not yet"), fmt.Errorf("%v", d.deleted))
				}
				return nil
			})
			c.nothingOf(claim)
		})
	}
}
