package reclaim

import (
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// tape turns fuzz bytes into odd objects; one that has run out chooses the sparse thing.
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

func (t *tape) text() string {
	words := []string{
		"", driver, "s", "${pvc.name}", "${", "\x00", "pv", names.AnnProvisionedBy, names.AnnDeletionSecretName, names.AnnDeletionSecretNamespace,
		names.AnnBetaStorageClass, names.ParameterSecretName, names.ParameterSecretNamespace, names.OwnParameterDeletionSecretName, names.FinalizerVolume,
		"Delete", "Retain", "Released", "Bound", "Available", "Failed", "Pending",
	}
	return words[int(t.next())%len(words)]
}

func (t *tape) texts() map[string]string {
	var out map[string]string
	for range t.next() % 5 {
		if out == nil {
			out = map[string]string{}
		}
		out[t.text()] = t.text()
	}
	return out
}

func (t *tape) volume() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: t.text(), Annotations: t.texts()}}
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(t.text())
	if t.yes() {
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	pv.Status.Phase = corev1.PersistentVolumePhase(t.text())
	if t.yes() {
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: t.text()}
	}
	if t.yes() {
		pv.Spec.ClaimRef = &corev1.ObjectReference{UID: types.UID(t.text()), Name: t.text(), Namespace: t.text()}
	}
	if t.yes() {
		pv.Finalizers = []string{names.FinalizerVolume}
	}
	if t.yes() {
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
		in := tape(raw)
		s := Snapshot{Name: "pv", Driver: world().Driver}
		if in.yes() {
			s.Volume = in.volume()
			s.Claim = Proof(in.next() % 4)
			for range in.next() % 3 {
				s.SameHandle = append(s.SameHandle, SameHandle{in.volume(), Proof(in.next() % 4)})
			}
			if in.yes() {
				s.Class = &storagev1.StorageClass{Provisioner: driver, Parameters: in.texts()}
			}
			s.Fresh = in.yes()
			NeedsProof(s.Volume)
			ClassToRead(s.Volume)
			ProofOf(s.Volume, &corev1.PersistentVolumeClaim{})
		}
		v := Decide(s)
		check(t, v)
		d, acts := v.(do)
		if !acts {
			return
		}
		looked := s.Fresh
		for _, a := range d.Actions {
			if _, looks := a.(ListSameHandle); looks {
				if looked = true; AfterList(s) != nil {
					t.Errorf("looked in vain: %+v", s.Volume)
				}
			}
			if a, deletes := a.(DeleteVolume); deletes {
				sure := s.Claim == ClaimGone || !namesClaim(s.Volume)
				if !sure || !looked || a.Handle == "" {
					t.Errorf("deleted %q: %+v", a.Handle, s.Volume)
				}
				check(t, AfterDelete(a, DeleteFailure{Code: codes.Code(in.next()), Message: in.text(), NoSecret: in.yes()}))
				check(t, AfterSecret(a.Secret, SecretFailure{Forbidden: in.yes(), Message: in.text()}))
			}
		}
		check(t, d.Then)
	})
}

func check(t *testing.T, v Verdict) {
	t.Helper()
	if v == nil {
		t.Fatal("no verdict")
	}
	if f := v.Because(); verdict.Describe(f.Reason).Meaning == "" {
		t.Errorf("no known reason: %+v", f)
	}
}
