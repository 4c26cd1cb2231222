package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
)

// someMeta has what a binder reads and what it has never heard of.
func someMeta(t *rapid.T, name string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
	keys := []string{names.AnnBindCompleted, names.AnnBoundByController, names.AnnStorageProvisioner, names.AnnMigratedTo, "mine", annLastApplied}
	for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID).Draw(t, "annotations") {
		metav1.SetMetaDataAnnotation(&o, key, "x")
	}
	if rapid.Bool().Draw(t, "labels") {
		o.Labels = map[string]string{"app": "db"}
	}
	if rapid.Bool().Draw(t, "finalizers") {
		o.Finalizers = []string{names.FinalizerPVProtection, "mine"}
	}
	if rapid.Bool().Draw(t, "deleted") {
		o.DeletionTimestamp = new(metav1.Unix(1000, 0))
	}
	if rapid.Bool().Draw(t, "owners") {
		o.OwnerReferences = []metav1.OwnerReference{{Name: "owner"}}
	}
	return o
}

func someClaim(t *rapid.T) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: someMeta(t, "claim"),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			VolumeName:  rapid.SampledFrom([]string{"", "v"}).Draw(t, "volumeName"),
			DataSource:  &corev1.TypedLocalObjectReference{Name: "snapshot"},
			Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi"), "odd": resource.MustParse("1")},
			},
		},
	}
	claim.Namespace = "default"
	claim.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumeClaimPhase{"", corev1.ClaimPending, corev1.ClaimBound, corev1.ClaimLost}).Draw(t, "phase")
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue}}
	return claim
}

func someVolume(t *rapid.T) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: someMeta(t, "volume"),
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi"), "odd": resource.MustParse("1")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, MountOptions: []string{"ro"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "d", VolumeHandle: "h", VolumeAttributes: map[string]string{"a": "b"},
			}},
		},
	}
	if uid := rapid.SampledFrom([]types.UID{"none", "", "claim-uid", "other"}).Draw(t, "claimRef"); uid != "none" {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "claim", UID: uid, FieldPath: "odd"}
	}
	pv.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumePhase{"", corev1.VolumePending, corev1.VolumeAvailable, corev1.VolumeBound, corev1.VolumeReleased}).Draw(t, "phase")
	pv.Status.Message = "odd"
	return pv
}

// An edit does to a whole object what its patch does, or nothing where the patch is refused.
func TestEditsAreTheirPatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claim, pv := someClaim(t), someVolume(t)
		mark := rapid.Bool().Draw(t, "mark")
		seen := pv.DeepCopy() // the state that was decided on is older
		seen.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumePhase{"", pv.Status.Phase, corev1.VolumeFailed}).Draw(t, "seen phase")
		seen.Spec.PersistentVolumeReclaimPolicy = rapid.SampledFrom([]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}).Draw(t, "seen policy")
		seen.ResourceVersion = "6"
		sawClaim := claim.DeepCopy()
		sawClaim.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumeClaimPhase{"", claim.Status.Phase, corev1.ClaimLost}).Draw(t, "seen claim phase")
		sawClaim.ResourceVersion = "6"
		status := BoundClaim{AccessModes: pv.Spec.AccessModes, Capacity: pv.Spec.Capacity}
		for name, edit := range map[string]VolumeEdit{
			"TakeVolume": TakeVolume(pv, claim, mark), "PhaseUnchanged": PhaseUnchanged(pv, corev1.VolumeReleased, "m"), "PhaseOfOwned": PhaseOfOwned(seen, "claim-uid", corev1.VolumeBound, "m").On(pv),
			"TakeVolume, old": TakeVolume(seen, claim, mark).On(pv), "PhaseUnchanged, old": PhaseUnchanged(seen, corev1.VolumeAvailable, "").On(pv),
		} {
			compare(t, name, edit, pv)
		}
		for name, edit := range map[string]ClaimEdit{
			"NameVolume": NameVolume(sawClaim, "v", mark).On(claim), "BindStatus": BindStatus(sawClaim, "v", status).On(claim),
			"NameProvisioner": NameProvisioner(sawClaim, "d").On(claim), "DropClaimFinalizer": DropClaimFinalizer(sawClaim, names.FinalizerPVProtection).On(claim),
		} {
			compare(t, name, edit, claim)
		}
	})
}

func compare[T editable[T]](t *rapid.T, name string, edit Edit[T], now T) {
	want, refused := patched(t, edit.Patch, now)
	got := edit.whole(false)
	switch {
	case refused && got != nil:
		t.Fatalf("%s: the patch is refused, and the object would be written", name)
	case !refused && got == nil:
		t.Fatalf("%s: the patch is taken, and no object would be written", name)
	case refused:
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
		t.Fatalf("%s: %s", name, diff)
	}
}

// Of a volume that a cache has trimmed the status is written whole, if nothing is missing of what
// is written with it.
func TestStatusOfATrimmedVolume(t *testing.T) {
	wholes := 0
	rapid.Check(t, func(t *rapid.T) {
		pv := someVolume(t)
		pv.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumePhase{corev1.VolumeBound, corev1.VolumeReleased}).Draw(t, "trimmed phase")
		pv.Status.Message = rapid.SampledFrom([]string{"", "odd"}).Draw(t, "message")
		pv.Status.Reason = rapid.SampledFrom([]string{"", "odd"}).Draw(t, "reason")
		if rapid.Bool().Draw(t, "plain") {
			pv.Labels, pv.OwnerReferences, pv.Status.Message, pv.Status.Reason = nil, nil, "", ""
			pv.Annotations = map[string]string{names.AnnProvisionedBy: "d"}
			pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "claim", UID: "claim-uid"}
		}
		for name, trim := range map[string]func(any) (any, error){"TrimForBinding": TrimForBinding(BindingTrim{}), "TrimForPlane": TrimForPlane(BindingTrim{})} {
			trimmed := pv.DeepCopy()
			if rapid.Bool().Draw(t, "trimmed before") {
				if _, err := trim(trimmed); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := trim(trimmed); err != nil {
				t.Fatal(err)
			}
			edit := PhaseOfOwned(trimmed, "claim-uid", corev1.VolumeReleased, "m")
			if edit.whole(false) != nil {
				t.Fatalf("%s: the spec of a trimmed volume would be written", name)
			}
			got, ok := edit.whole(true).(*corev1.PersistentVolume)
			if !ok {
				continue
			}
			wholes++
			want, _ := patched(t, edit.Patch, pv)
			got.Spec = pv.Spec // which the API server keeps
			if diff := cmp.Diff(want, client.Object(got), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
	})
	if wholes == 0 {
		t.Error("no status would be written whole")
	}
}

// patched is what the API server makes of a patch.
func patched[T editable[T]](t *rapid.T, patch client.Patch, now T) (after client.Object, refused bool) {
	before, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	data, err := patch.Data(now)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	switch patch.Type() {
	case types.JSONPatchType:
		steps, err := jsonpatch.DecodePatch(data)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = steps.Apply(before); err != nil {
			return nil, true
		}
	case types.StrategicMergePatchType:
		out, err = strategicpatch.StrategicMergePatch(before, data, now)
	default:
		out, err = jsonpatch.MergePatch(before, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	var o T
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatal(err)
	}
	return o, o.GetResourceVersion() != now.GetResourceVersion() // which is compared
}

// What a trim calls whole has lost nothing but its managed fields.
func TestNothingIsCalledWholeThatIsNot(t *testing.T) {
	trims := map[string]func(any) (any, error){"Trim": Trim, "TrimForBinding": TrimForBinding(BindingTrim{}), "TrimForPlane": TrimForPlane(BindingTrim{})}
	wholes := 0
	rapid.Check(t, func(t *rapid.T) {
		for name, trim := range trims {
			for _, o := range []client.Object{someClaim(t), someVolume(t)} {
				want := o.DeepCopyObject()
				out, err := trim(o)
				if err != nil {
					t.Fatal(err)
				}
				trimmed, ok := out.(client.Object)
				if !ok || !IsWhole(trimmed) {
					continue
				}
				wholes++
				if diff := cmp.Diff(want, out, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")); diff != "" {
					t.Fatalf("%s: %s", name, diff)
				}
			}
		}
	})
	if wholes == 0 {
		t.Error("nothing stays whole")
	}
}

func TestReplacing(t *testing.T) {
	kind := schema.GroupResource{Resource: "persistentvolumes"}
	for _, test := range []struct {
		name   string
		old    bool  // the API server is newer than the types
		answer error // to the object
		want   []string
		failed bool
	}{
		{name: "a whole object", want: []string{"update", "update status"}},
		{name: "an API server with more fields", old: true, want: []string{"patch", "patch status"}},
		{name: "a conflict", answer: apierrors.NewConflict(kind, "volume", nil), want: []string{"update", "patch", "update status", "patch status"}},
		{name: "a field that is lost", answer: apierrors.NewInvalid(schema.GroupKind{}, "volume", nil), want: []string{"update", "patch", "update status", "patch status"}},
		{name: "an older role", answer: apierrors.NewForbidden(kind, "volume", nil), want: []string{"update", "patch", "patch status"}},
		{name: "an answer that did not come", answer: errors.New("cut off"), want: []string{"update", "update status"}, failed: true},
		{
			name: "an object that is gone", answer: apierrors.NewGenericServerResponse(http.StatusNotFound, "", kind, "", "", 0, false),
			want: []string{"update", "update status"}, failed: true,
		},
	} {
		server := &asked{answer: test.answer}
		c := &Replacing{Client: server, Knows: func() bool { return !test.old }}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume", UID: "u", ResourceVersion: "1", ManagedFields: complete}}
		for _, patch := range []func(client.Object) error{
			func(o client.Object) error {
				return c.Patch(t.Context(), o, PhaseUnchanged(pv, corev1.VolumeAvailable, ""))
			},
			func(o client.Object) error {
				return c.Status().Patch(t.Context(), o, PhaseUnchanged(pv, corev1.VolumeAvailable, ""))
			},
		} {
			o := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "volume"}}
			if err := patch(o); (err != nil) != test.failed {
				t.Errorf("%s: %v", test.name, err)
			} else if err == nil && o.ResourceVersion != "answered" {
				t.Errorf("%s: the answer did not arrive", test.name)
			}
		}
		if diff := cmp.Diff(test.want, server.requests); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if pv.ResourceVersion != "1" || pv.Status.Phase != "" {
			t.Errorf("%s: the object of the view was changed", test.name)
		}
	}
}

// asked is an API server that notes what it is asked, and answers objects with an error.
type asked struct {
	client.Client
	answer   error
	requests []string
}

func (a *asked) note(what string, o client.Object, err error) error {
	a.requests = append(a.requests, what)
	if err == nil {
		o.SetResourceVersion("answered")
	}
	return err
}

func (a *asked) Update(_ context.Context, o client.Object, _ ...client.UpdateOption) error {
	return a.note("update", o, a.answer)
}

func (a *asked) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return a.note("patch", o, nil)
}

func (a *asked) Status() client.SubResourceWriter { return askedStatus{of: a} }

type askedStatus struct {
	client.SubResourceWriter
	of *asked
}

func (s askedStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.of.note("update status", o, s.of.answer)
}

func (s askedStatus) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.of.note("patch status", o, nil)
}
