package provision

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/fuzzing"
)

// input builds the objects of this package from a fuzz input.
type input struct{ *fuzzing.Reader }

// words are what the rules look for, and odd texts.
var words = []string{
	"", driver, "fast", "n1", string(uid), "${pvc.name}", "${", "s", "300Mi", "-1", "xfs", pvName,
	names.AnnStorageProvisioner, names.AnnSelectedNode, names.AnnBetaStorageClass, names.AnnMigratedTo,
	names.ParameterFSType, "FSTYPE", names.ParameterSecretName, names.ParameterSecretNamespace, names.OwnParameterMinimumSize, names.ParameterPrefix + "x",
	"csiProvisionerSecretName", "\x00", "ReadWriteOnce", "ReadOnlyMany", "Block",
}

func (t input) claim() *corev1.PersistentVolumeClaim {
	if !t.Bool() {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: t.Text(), UID: types.UID(t.Text()), Annotations: t.Pairs()}}
	if t.Bool() {
		claim.Annotations = map[string]string{names.AnnStorageProvisioner: driver, names.AnnSelectedNode: t.Text()}
	}
	claim.Spec.StorageClassName = t.MaybeText()
	claim.Spec.VolumeAttributesClassName = t.MaybeText()
	for range t.Byte() % 3 {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(t.Text()))
	}
	if t.Bool() {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: t.Quantity()}
	}
	if t.Bool() {
		claim.Spec.VolumeMode = new(corev1.PersistentVolumeMode(t.Text()))
	}
	if t.Byte()%7 == 1 {
		claim.Spec.VolumeName = t.Text()
	}
	if t.Byte()%7 == 1 {
		claim.DeletionTimestamp = &metav1.Time{}
	}
	if t.Byte()%7 == 1 {
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{}
	}
	return claim
}

func (t input) class() *storagev1.StorageClass {
	if !t.Bool() {
		return nil
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: t.Text()}, Provisioner: driver, Parameters: t.Pairs()}
	if t.Bool() {
		class.VolumeBindingMode = new(storagev1.VolumeBindingMode(t.Text()))
	}
	if t.Bool() {
		class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimPolicy(t.Text()))
	}
	if t.Byte()%7 == 1 {
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{}}
	}
	return class
}

func (t input) volume() *corev1.PersistentVolume {
	if t.Byte()%4 != 1 {
		return nil
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: t.Text()}}
	if t.Bool() {
		pv.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(t.Text())}
	}
	if t.Bool() {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: t.Text(), VolumeHandle: t.Text()}
	}
	return pv
}

func (t input) request() *csi.CreateVolumeRequest {
	if !t.Bool() {
		return nil
	}
	r := &csi.CreateVolumeRequest{Name: t.Text(), Parameters: t.Pairs()}
	if t.Bool() {
		r.CapacityRange = &csi.CapacityRange{RequiredBytes: int64(int8(t.Byte()))}
	}
	for range t.Byte() % 3 {
		capability := &csi.VolumeCapability{}
		if t.Bool() {
			capability = nil
		}
		r.VolumeCapabilities = append(r.VolumeCapabilities, capability)
	}
	return r
}

func (t input) snapshot() Snapshot {
	s := Snapshot{
		Key: Key{NamespacedName: types.NamespacedName{Namespace: t.Text(), Name: t.Text()}, UID: types.UID(t.Text())}, Claim: t.claim(), Class: t.class(), Volume: t.volume(),
		Secret:  Secret{Access: Access(t.Byte() % 5), Version: t.Text()},
		Retry:   RetryState{NotBefore: time.Unix(int64(t.Byte()), 0), Inputs: t.Text()},
		Options: Options{NamePrefix: t.Text(), NameUUIDLength: int(int8(t.Byte())), DefaultFSType: t.Text(), MinVolumeSize: map[string]int64{"xfs": int64(t.Byte()) << 30}},
	}
	if t.Bool() {
		s.Driver = world().Driver
	}
	s.Driver.Name = driver
	s.Driver.HasTopology = t.Bool()
	if t.Bool() {
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: t.Pairs()}}
	}
	if t.Bool() {
		s.CSINode = &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: t.Text(), TopologyKeys: []string{t.Text()}}}}}
	}
	if t.Byte()%5 == 1 {
		s.Pending = &intent.Entry{UID: s.Key.UID, VolumeName: t.Text(), Request: t.request(), Known: intent.Known{Handle: t.Text()}}
	}
	return s
}

// sound fails when a verdict cannot be carried out, or says nothing.
func sound(t *testing.T, v Verdict) {
	t.Helper()
	if v == nil {
		t.Fatal("no verdict")
	}
	if f := v.Because(); f.Reason == "" || !verdict.IsDocumented(f.Reason) {
		t.Errorf("no known reason: %+v", f)
	}
	if d, ok := v.(do); ok {
		if len(d.Actions) == 0 {
			t.Error("nothing to do")
		}
		if _, creates := d.Actions[len(d.Actions)-1].(CreateVolume); !creates {
			sound(t, d.Then)
		}
	}
}

func seed(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"))
	f.Add([]byte("\x01\x02\x04\x01\x03\x01\x00\x01\x03\x00\x01\x18\x01\x05\x1e\x00\x00\x00\x00\x01\x02\x02\x12\x07\x13\x07\x00\x00\x00\x00\x01\x01\x01\x01"))
}

// FuzzDecide: no object with missing fields makes anything panic (H-10, H-12, U-47), and every
// verdict can be carried out.
func FuzzDecide(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := input{fuzzing.New(raw, words...)}
		s := in.snapshot()
		sound(t, settled(s, time.Unix(100, 0)))
		Inputs(s)
		sound(t, AfterSecret(s, askedSecret(t, s), s.Secret))
	})
}

// FuzzAfterCreate: neither does any answer of a driver.
func FuzzAfterCreate(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := input{fuzzing.New(raw, words...)}
		failure, a := csispec.Failure{Code: codes.Code(in.Byte() % 20), Message: in.Text(), NoAnswer: in.Bool()}, Answer{}
		if failure.NoAnswer || failure.Code != codes.OK {
			a.Failure = &failure
		}
		if in.Bool() {
			a.Volume = &csi.Volume{VolumeId: in.Text(), CapacityBytes: int64(int8(in.Byte())), VolumeContext: in.Pairs()}
			for range in.Byte() % 3 {
				place := &csi.Topology{Segments: in.Pairs()}
				if in.Bool() {
					place = nil
				}
				a.Volume.AccessibleTopology = append(a.Volume.AccessibleTopology, place)
			}
		}
		sent := CreateVolume{Request: in.request()}
		sent.Secrets, _ = secretref.NewSet(in.Pairs(), secretref.Scope{})
		s := in.snapshot()
		v := AfterCreate(s, sent, a)
		sound(t, v)
		if a.Failure == nil && a.Volume.GetVolumeId() != "" {
			kept(t, v)
		}
		want, has := written(v)
		if !has {
			return
		}
		sound(t, AfterWrite(want, Written{Existing: in.volume(), Reason: metav1.StatusReason(in.Text())}))
		sound(t, AfterDiscard(in.Text(), failure))
	})
}

// kept fails when a volume that exists is forgotten: the record goes only after it has its
// PersistentVolume, or is deleted again (H-1).
func kept(t *testing.T, v Verdict) {
	t.Helper()
	d, ok := v.(do)
	if !ok {
		return // the record stays
	}
	switch d.Actions[0].(type) {
	case WriteVolume, DiscardVolume:
	default:
		t.Errorf("forgotten: %+v", d)
	}
}

func written(v Verdict) (*corev1.PersistentVolume, bool) {
	if d, ok := v.(do); ok {
		if w, ok := d.Actions[0].(WriteVolume); ok {
			return w.Volume, true
		}
	}
	return nil, false
}
