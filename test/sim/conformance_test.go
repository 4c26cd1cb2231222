package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// api is one of the two API servers, for a row of the table.
type api struct {
	client.Client
	t      *testing.T
	suffix string // of the names
}

const ours = "external-provisioner.volume.kubernetes.io/finalizer"

func (a api) volume(name string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		},
	}
	return made(a, pv, edits)
}

func (a api) claim(name string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	return made(a, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("none"),
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, edits)
}

func (a api) lease(name string) *coordinationv1.Lease {
	return made(a, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, nil)
}

func made[T client.Object](a api, o T, edits []func(T)) T {
	a.t.Helper()
	for _, edit := range edits {
		edit(o)
	}
	o.SetName(o.GetName() + a.suffix)
	if err := a.Create(a.t.Context(), o); err != nil {
		a.t.Fatal(err)
	}
	return o
}

// outcome is what the row saw: "ok", or the reason of the error.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return string(apierrors.ReasonForError(err))
}

func (a api) reread(o client.Object) error {
	return a.Get(a.t.Context(), client.ObjectKeyFromObject(o), o)
}

// finalizers are those of the object as it is now; "gone" when it is.
func (a api) finalizers(o client.Object) string {
	err := a.reread(o)
	if apierrors.IsNotFound(err) {
		return "gone"
	}
	short := strings.NewReplacer(ours, "ours", "kubernetes.io/", "")
	text := short.Replace(strings.Join(o.GetFinalizers(), ","))
	if o.GetDeletionTimestamp() != nil {
		text += " deleting"
	}
	return text
}

func withOurs(pv *corev1.PersistentVolume) { pv.Finalizers = []string{ours} }

func raw(kind types.PatchType, text string) client.Patch { return client.RawPatch(kind, []byte(text)) }

// rows are what the controllers and the simulation rely on. They run in both worlds, with the same
// results.
var rows = []struct {
	name string
	do   func(a api) string
	want string
}{
	{"creation resets status and adds the protection of volumes", func(a api) string {
		pv := a.volume("r1", func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound })
		return string(pv.Status.Phase) + " " + a.finalizers(pv)
	}, "Pending pv-protection"},
	{"a change of the phase says when", func(a api) string {
		pv := a.volume("r0")
		pv.Status.LastPhaseTransitionTime = new(metav1.Unix(1, 0))
		said := a.Status().Update(a.t.Context(), pv) // the phase stays, and the time is taken
		pv.Status.Phase = corev1.VolumeReleased
		err := errors.Join(said, a.Status().Update(a.t.Context(), pv))
		return fmt.Sprint(outcome(err), " ", pv.Status.LastPhaseTransitionTime.After(time.Unix(1, 0)))
	}, "ok true"},
	{"creation keeps our finalizer before the protection", func(a api) string {
		return a.finalizers(a.volume("r2", withOurs))
	}, "ours,pv-protection"},
	{"creation of a claim", func(a api) string {
		claim := a.claim("r3", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "x" })
		return string(claim.Status.Phase) + " " + claim.Spec.VolumeName + " " + a.finalizers(claim)
	}, "Pending x pvc-protection"},
	{"a taken name", func(a api) string {
		a.volume("r4")
		return outcome(a.Create(a.t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "r4"}, Spec: a.volume("r4-other").Spec}))
	}, "AlreadyExists"},
	{"an update of an old version", func(a api) string {
		old := a.volume("r5")
		now := old.DeepCopy()
		now.Annotations = map[string]string{"a": "b"}
		return outcome(a.Update(a.t.Context(), now)) + " " + outcome(a.Update(a.t.Context(), old))
	}, "ok Conflict"},
	{"an update without a version", func(a api) string {
		pv := a.volume("r6")
		pv.ResourceVersion = ""
		lease := a.lease("r6")
		lease.ResourceVersion = ""
		return outcome(a.Update(a.t.Context(), pv)) + " " + outcome(a.Update(a.t.Context(), lease))
	}, "ok Invalid"},
	{"an update that changes nothing", func(a api) string {
		pv := a.volume("r7")
		before := pv.ResourceVersion
		err := a.Update(a.t.Context(), pv)
		return outcome(err) + fmt.Sprint(" ", pv.ResourceVersion == before)
	}, "ok true"},
	{"an update with another uid", func(a api) string {
		pv := a.volume("r8")
		pv.UID = "other"
		return outcome(a.Update(a.t.Context(), pv))
	}, "Conflict"},
	{"a patch with another uid", func(a api) string {
		pv := a.volume("r9", withOurs)
		other := pv.DeepCopy()
		other.UID = "other"
		return outcome(a.Patch(a.t.Context(), pv, kube.DropFinalizer(other, ours))) + " " + a.finalizers(pv)
	}, "Invalid ours,pv-protection"},
	{"a patch with an old version", func(a api) string {
		pv := a.volume("r10")
		return outcome(a.Patch(a.t.Context(), pv, raw(types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`)))
	}, "Conflict"},
	{"a patch of nothing", func(a api) string {
		return outcome(a.Patch(a.t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, raw(types.MergePatchType, `{"metadata":{"uid":"other"}}`)))
	}, "NotFound"},
	{"patches add and drop one finalizer", func(a api) string {
		pv := a.volume("r12")
		add := outcome(a.Patch(a.t.Context(), pv, kube.AddFinalizer(pv.UID, ours))) + " " + a.finalizers(pv)
		return add + " " + outcome(a.Patch(a.t.Context(), pv, kube.DropFinalizer(pv, ours))) + " " + a.finalizers(pv)
	}, "ok ours,pv-protection ok pv-protection"},
	{"dropping a finalizer that is not there changes nothing", func(a api) string {
		pv := a.volume("r13")
		before := pv.ResourceVersion
		err := a.Patch(a.t.Context(), pv, kube.DropFinalizer(pv, ours))
		return outcome(err) + fmt.Sprint(" ", pv.ResourceVersion == before)
	}, "ok true"},
	{"a finalizer is dropped under a policy", func(a api) string {
		pv := a.volume("r32", withOurs)
		other := pv.DeepCopy()
		other.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		wrong := outcome(a.Patch(a.t.Context(), other, kube.DropFinalizerUnderPolicy(other, ours)))
		return wrong + " " + outcome(a.Patch(a.t.Context(), pv, kube.DropFinalizerUnderPolicy(pv, ours))) + " " + a.finalizers(pv)
	}, "Invalid ok pv-protection"},
	{"deletion waits for finalizers", func(a api) string {
		pv := a.volume("r14", withOurs)
		return outcome(a.Delete(a.t.Context(), pv)) + " " + a.finalizers(pv) + " " + outcome(a.Delete(a.t.Context(), pv))
	}, "ok ours,pv-protection deleting ok"},
	{"the last finalizer takes the object along, under the version before", func(a api) string {
		pv := a.volume("r15")
		err := a.Delete(a.t.Context(), pv)
		err = errors.Join(err, a.reread(pv))
		before := pv.ResourceVersion
		err = errors.Join(err, a.Patch(a.t.Context(), pv, kube.DropFinalizer(pv, "kubernetes.io/pv-protection")))
		return outcome(err) + fmt.Sprint(" ", pv.ResourceVersion == before) + " " + a.finalizers(pv)
	}, "ok true gone"},
	{"the last finalizer takes a claim along, whichever client has changed it", func(a api) string {
		const protection = "kubernetes.io/pvc-protection"
		claim := a.claim("r33", func(claim *corev1.PersistentVolumeClaim) { claim.Finalizers = []string{ours, protection} })
		err := errors.Join(a.Delete(a.t.Context(), claim), a.reread(claim))
		err = errors.Join(err, a.Patch(a.t.Context(), claim.DeepCopy(), kube.DropFinalizer(claim, ours)))
		one := a.finalizers(claim.DeepCopy())
		return outcome(err) + " " + one + " " + outcome(a.Patch(a.t.Context(), claim, kube.DropFinalizer(claim, protection))) + " " + a.finalizers(claim)
	}, "ok pvc-protection deleting ok gone"},
	{"null drops all finalizers", func(a api) string {
		pv := a.volume("r16", withOurs)
		err := a.Delete(a.t.Context(), pv)
		err = errors.Join(err, a.Patch(a.t.Context(), pv, raw(types.MergePatchType, `{"metadata":{"finalizers":null}}`)))
		return outcome(err) + " " + a.finalizers(pv)
	}, "ok gone"},
	{"no finalizer is added to what is being deleted", func(a api) string {
		pv := a.volume("r17")
		err := a.Delete(a.t.Context(), pv)
		return outcome(err) + " " + outcome(a.Patch(a.t.Context(), pv, kube.AddFinalizer(pv.UID, ours)))
	}, "ok Invalid"},
	{"deletion of another uid", func(a api) string {
		pv := a.volume("r18")
		return outcome(a.Delete(a.t.Context(), pv, client.Preconditions{UID: new(types.UID("other"))})) + " " + a.finalizers(pv)
	}, "Conflict pv-protection"},
	{"deletion of an old version", func(a api) string {
		pv := a.volume("r19")
		return outcome(a.Delete(a.t.Context(), pv, client.Preconditions{ResourceVersion: new("1")}))
	}, "Conflict"},
	{"deletion of nothing", func(a api) string {
		return outcome(a.Delete(a.t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "none"}}))
	}, "NotFound"},
	{"a claim gets its volume once", func(a api) string {
		claim := a.claim("r21")
		claim.Spec.VolumeName = "one"
		first := a.Update(a.t.Context(), claim)
		claim.Spec.VolumeName = "two"
		return outcome(first) + " " + outcome(a.Update(a.t.Context(), claim))
	}, "ok Invalid"},
	{"the rest of a claim is fixed", func(a api) string {
		claim := a.claim("r22")
		claim.Spec.StorageClassName = new("other")
		return outcome(a.Update(a.t.Context(), claim))
	}, "Invalid"},
	{"the source of a volume is fixed", func(a api) string {
		pv := a.volume("r23")
		pv.Spec.CSI.VolumeHandle = "other"
		return outcome(a.Update(a.t.Context(), pv))
	}, "Invalid"},
	{"an update does not reach the status", func(a api) string {
		pv := a.volume("r24")
		pv.Status.Phase = corev1.VolumeFailed
		return outcome(a.Update(a.t.Context(), pv)) + " " + fmt.Sprint(pv.Status.Phase != corev1.VolumeFailed)
	}, "ok true"},
	{"a status update does not reach the spec", func(a api) string {
		claim := a.claim("r25")
		claim.Spec.VolumeName, claim.Status.Phase = "one", corev1.ClaimBound
		return outcome(a.Status().Update(a.t.Context(), claim)) + " " + claim.Spec.VolumeName + string(claim.Status.Phase)
	}, "ok Bound"},
	{"a status patch reaches metadata", func(a api) string {
		pv := a.volume("r26")
		err := a.Status().Patch(a.t.Context(), pv, raw(types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}},"status":{"phase":"Released"}}`))
		return outcome(err) + " " + pv.Annotations["a"] + string(pv.Status.Phase)
	}, "ok bReleased"},
	{"class parameters are fixed", func(a api) string {
		class := made(a, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "r27"}, Provisioner: "d"}, nil)
		class.Parameters = map[string]string{"a": "b"}
		return fmt.Sprint(*class.ReclaimPolicy, " ", *class.VolumeBindingMode, " ") + outcome(a.Update(a.t.Context(), class))
	}, "Delete Immediate Invalid"},
	{"an update of a lease that is gone", func(a api) string {
		lease := a.lease("r28")
		err := a.Delete(a.t.Context(), lease)
		with := a.Update(a.t.Context(), lease.DeepCopy())
		lease.UID = ""
		withVersion := a.Update(a.t.Context(), lease.DeepCopy())
		lease.ResourceVersion = ""
		return outcome(err) + " " + outcome(with) + " " + outcome(withVersion) + " " + outcome(a.Update(a.t.Context(), lease))
	}, "ok Conflict ok Invalid"},
	{"an update of a volume that is gone", func(a api) string {
		pv := a.volume("r29", func(pv *corev1.PersistentVolume) { pv.Finalizers = nil })
		err := a.Delete(a.t.Context(), pv)
		err = errors.Join(err, a.Patch(a.t.Context(), pv, raw(types.MergePatchType, `{"metadata":{"finalizers":null}}`)))
		return outcome(err) + " " + outcome(a.Update(a.t.Context(), pv))
	}, "ok NotFound"},
	{"creation with a version", func(a api) string {
		return outcome(a.Create(a.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r30", ResourceVersion: "1"}}))
	}, ""},
	{"a name that is taken again is another object", func(a api) string {
		lease := a.lease("r31")
		err := a.Delete(a.t.Context(), lease)
		again := a.lease("r31")
		return outcome(err) + fmt.Sprint(" ", again.UID != lease.UID, " ") + outcome(a.Update(a.t.Context(), lease))
	}, "ok true Conflict"},
}

func TestConformanceOfTheSimulation(t *testing.T) {
	conform(t, apiserver.New().Client())
}

func TestConformanceOfTheRealThing(t *testing.T) {
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), "../../bin")
	if err != nil {
		t.Skip(err) // it says what to run
	}
	c, err := cluster.Start(t.Context(), cluster.Config{Dir: t.TempDir(), Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop(t.Context()) })
	real, err := client.New(c.RESTConfig(), client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	conform(t, real)
}

func conform(t *testing.T, c client.Client) {
	for _, row := range slices.Concat(rows, bindingRows) {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			if got := row.do(api{c, t, ""}); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}
