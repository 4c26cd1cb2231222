package provision

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/secretref"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// tape turns fuzz bytes into odd objects: every byte is one choice, and a tape that has run out
// chooses the sparse thing.
type tape []byte

func (t *tape) next() byte {
	if len(*t) == 0 {
		return 0
	}
	b := (*t)[0]
	*t = (*t)[1:]
	return b
}

func (t *tape) yes() bool { return t.next()%2 == 1 }

// text favours what the rules look for.
func (t *tape) text() string {
	words := []string{
		"", driver, "fast", "n1", string(uid), "${pvc.name}", "${", "s", "300Mi", "-1", "xfs", pvName,
		names.AnnStorageProvisioner, names.AnnSelectedNode, names.AnnBetaStorageClass, names.AnnMigratedTo,
		names.ParameterFSType, "FSTYPE", names.ParameterSecretName, names.ParameterSecretNamespace, names.OwnParameterMinimumSize, names.ParameterPrefix + "x",
		"csiProvisionerSecretName", "\x00", "ReadWriteOnce", "ReadOnlyMany", "Block",
	}
	return words[int(t.next())%len(words)]
}

func (t *tape) texts() map[string]string {
	n := t.next() % 5
	if n == 0 {
		return nil
	}
	out := map[string]string{}
	for range n {
		out[t.text()] = t.text()
	}
	return out
}

func (t *tape) maybeText() *string {
	if !t.yes() {
		return nil
	}
	return new(t.text())
}

func (t *tape) quantity() resource.Quantity {
	return *resource.NewQuantity(int64(int8(t.next()))<<(t.next()%60), resource.BinarySI)
}

func (t *tape) claim() *corev1.PersistentVolumeClaim {
	if !t.yes() {
		return nil
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: t.text(), UID: types.UID(t.text()), Annotations: t.texts()}}
	if t.yes() {
		claim.Annotations = map[string]string{names.AnnStorageProvisioner: driver, names.AnnSelectedNode: t.text()}
	}
	claim.Spec.StorageClassName = t.maybeText()
	claim.Spec.VolumeAttributesClassName = t.maybeText()
	for range t.next() % 3 {
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(t.text()))
	}
	if t.yes() {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: t.quantity()}
	}
	if t.yes() {
		claim.Spec.VolumeMode = new(corev1.PersistentVolumeMode(t.text()))
	}
	if t.next()%7 == 1 {
		claim.Spec.VolumeName = t.text()
	}
	if t.next()%7 == 1 {
		claim.DeletionTimestamp = &metav1.Time{}
	}
	if t.next()%7 == 1 {
		claim.Spec.DataSourceRef = &corev1.TypedObjectReference{}
	}
	return claim
}

func (t *tape) class() *storagev1.StorageClass {
	if !t.yes() {
		return nil
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: t.text()}, Provisioner: driver, Parameters: t.texts()}
	if t.yes() {
		class.VolumeBindingMode = new(storagev1.VolumeBindingMode(t.text()))
	}
	if t.yes() {
		class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimPolicy(t.text()))
	}
	if t.next()%7 == 1 {
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{}}
	}
	return class
}

func (t *tape) volume() *corev1.PersistentVolume {
	if t.next()%4 != 1 {
		return nil
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: t.text()}}
	if t.yes() {
		pv.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(t.text())}
	}
	if t.yes() {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: t.text(), VolumeHandle: t.text()}
	}
	return pv
}

func (t *tape) request() *csi.CreateVolumeRequest {
	if !t.yes() {
		return nil
	}
	r := &csi.CreateVolumeRequest{Name: t.text(), Parameters: t.texts()}
	if t.yes() {
		r.CapacityRange = &csi.CapacityRange{RequiredBytes: int64(int8(t.next()))}
	}
	for range t.next() % 3 {
		capability := &csi.VolumeCapability{}
		if t.yes() {
			capability = nil
		}
		r.VolumeCapabilities = append(r.VolumeCapabilities, capability)
	}
	return r
}

func (t *tape) snapshot() Snapshot {
	s := Snapshot{
		Key: Key{NamespacedName: types.NamespacedName{Namespace: t.text(), Name: t.text()}, UID: types.UID(t.text())}, Claim: t.claim(), Class: t.class(), Volume: t.volume(),
		Secret:  Secret{Access: Access(t.next() % 5), Version: t.text()},
		Retry:   RetryState{NotBefore: time.Unix(int64(t.next()), 0), Inputs: t.text()},
		Options: Options{NamePrefix: t.text(), NameUUIDLength: int(int8(t.next())), DefaultFSType: t.text(), MinVolumeSize: map[string]int64{"xfs": int64(t.next()) << 30}},
	}
	if t.yes() {
		s.Driver = world().Driver
	}
	s.Driver.Name = driver
	s.Driver.HasTopology = t.yes()
	if t.yes() {
		s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: t.texts()}}
	}
	if t.yes() {
		s.CSINode = &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: t.text(), TopologyKeys: []string{t.text()}}}}}
	}
	if t.next()%5 == 1 {
		s.Pending = &intent.Entry{UID: s.Key.UID, VolumeName: t.text(), Request: t.request(), Known: intent.Known{Handle: t.text()}}
	}
	return s
}

// sound fails when a verdict cannot be carried out, or says nothing.
func sound(t *testing.T, v Verdict) {
	t.Helper()
	if v == nil {
		t.Fatal("no verdict")
	}
	if f := v.Because(); f.Reason == "" || verdict.Describe(f.Reason).Meaning == "" {
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
		in := tape(raw)
		s := in.snapshot()
		sound(t, Decide(s, time.Unix(100, 0)))
		Inputs(s)
		if ref := SecretToRead(s); (ref.Name == "") != (ref.Namespace == "") {
			t.Errorf("half a reference: %q", ref)
		}
		sound(t, AfterSecret(s, SecretToRead(s), s.Secret.Access))
	})
}

// FuzzAfterCreate: neither does any answer of a driver.
func FuzzAfterCreate(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := tape(raw)
		a := Answer{Code: codes.Code(in.next() % 20), Message: in.text(), Foreign: in.yes()}
		if in.yes() {
			a.Volume = &csi.Volume{VolumeId: in.text(), CapacityBytes: int64(int8(in.next())), VolumeContext: in.texts()}
			for range in.next() % 3 {
				place := &csi.Topology{Segments: in.texts()}
				if in.yes() {
					place = nil
				}
				a.Volume.AccessibleTopology = append(a.Volume.AccessibleTopology, place)
			}
		}
		sent := CreateVolume{Request: in.request()}
		sent.Secrets, _ = secretref.NewSet(in.texts(), secretref.Scope{})
		s := in.snapshot()
		v := AfterCreate(s, sent, a)
		sound(t, v)
		if !a.Foreign && a.Code == codes.OK && a.Volume.GetVolumeId() != "" {
			kept(t, v)
		}
		want, has := written(v)
		if !has {
			return
		}
		sound(t, AfterWrite(want, Written{Existing: in.volume(), Reason: metav1.StatusReason(in.text())}))
		sound(t, AfterDiscard(in.text(), a))
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
