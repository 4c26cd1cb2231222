package reclaim

import (
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/fuzzing"
)

// input builds the objects of this package from a fuzz input.
type input struct{ *fuzzing.Reader }

// words are what the rules look for, and odd texts.
var words = []string{
	"", driver, "s", "${pvc.name}", "${", "\x00", "pv", names.AnnProvisionedBy, names.AnnDeletionSecretName, names.AnnDeletionSecretNamespace,
	names.AnnBetaStorageClass, names.ParameterSecretName, names.ParameterSecretNamespace, names.OwnParameterDeletionSecretName, names.FinalizerVolume,
	names.AnnReuse, names.ReuseAny, "a/b", "Delete", "Retain", "Released", "Bound", "Available", "Failed", "Pending",
}

func (t input) volume() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: t.Text(), Annotations: t.Pairs()}}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(t.Text())
	if t.Bool() {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	pv.Status.Phase = corev1.PersistentVolumePhase(t.Text())
	if t.Bool() {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: t.Text()}
	}
	if t.Bool() {
		pv.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(t.Text()), Name: t.Text(), Namespace: t.Text()}
	}
	if t.Bool() {
		pv.Finalizers = []string{names.FinalizerVolume}
	}
	if t.Bool() {
		pv.DeletionTimestamp = &metav1.Time{}
	}
	return pv
}

// FuzzReclaimDecide: no object with missing fields makes anything panic (U-47), every verdict can
// be carried out, and no volume is deleted whose claim may exist (I3), or without a look for others
// who have it (D-37).
func FuzzReclaimDecide(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x01\x07\x01\x00\x01\x11\x01\x02\x01\x02\x02\x02\x01\x01"))
	f.Add([]byte("\x01\x01\x00\x00\x01\x14\x01\x02\x01\x02\x02\x02\x01\x01\x01\x02"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := input{fuzzing.New(raw, words...)}
		s := Snapshot{Name: "pv", Driver: world().Driver}
		if in.Bool() {
			s.Volume = in.volume()
			s.IsLive, s.Known.IsComing, s.Known.Reclaimed = in.Bool(), in.Bool(), in.Bool()
			if ref := s.Volume.Spec.ClaimRef; ref != nil && in.Bool() {
				s.Known.ReleasedFrom = ref.UID
			}
			NeedsProof(s.Volume)
			ProofOf(s.Volume, &corev1.PersistentVolumeClaim{})
		}
		var gone, looked bool
		s, v, err := verdict.Settle(s, func(s Snapshot) Verdict { return Decide(s, s.now) }, func(s Snapshot, refs []verdict.Ref) (Snapshot, error) {
			for _, ref := range refs {
				var found Answer
				switch ref.What {
				case ReadVolume:
					s.IsLive = true
					continue
				case ReadClaim:
					if in.Bool() {
						found.Claim = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(in.Text())}}
					}
					gone = gone || ref == claimRef(s.Volume) && ProofOf(s.Volume, found.Claim) == ClaimGone
				case ReadClass:
					found.Class = &storagev1.StorageClass{Provisioner: driver, Parameters: in.Pairs()}
				case ReadSameHandle, ReadAllVolumes:
					looked = looked || ref.What == ReadAllVolumes
					for range in.Byte() % 3 {
						found.Volumes = append(found.Volumes, in.volume())
					}
				}
				s = s.With(ref, found)
			}
			return s, nil
		})
		if err != nil || v.Because().Reason == verdict.DecisionsEndless {
			t.Fatalf("%v, %v", v, err)
		}
		fuzzing.Known(t, v)
		d, acts := v.(do)
		if !acts {
			return
		}
		for _, a := range d.Actions {
			if a, deletes := a.(DeleteVolume); deletes {
				if _, kept := s.Volume.Annotations[names.AnnReuse]; kept {
					t.Errorf("8.14: deleted with the annotation %v", s.Volume.Annotations)
				}
				observed := s.sawRelease()
				sure := gone || observed && !s.IsLive || !namesClaim(s.Volume)
				if !sure || !looked && !observed || a.Handle == "" {
					t.Errorf("deleted %q: %+v", a.Handle, s.Volume)
				}
				fuzzing.Known(t, AfterDelete(a, csispec.Failure{Code: codes.Code(in.Byte()), Message: in.Text(), Secret: a.Secret}))
				fuzzing.Known(t, AfterSecret(a.Secret, SecretFailure{Forbidden: in.Bool(), Message: in.Text()}))
			}
		}
		fuzzing.Known(t, d.Then)
	})
}
