package protection

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

func TestGuards(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		name string
		test func(*world)
	}{
		{"3.1 claims", claims},
		{"8.27 many claims", manyClaims},
		{"3.2 volumes", volumes},
		{"3.3 classes", classes},
		{"3.4 growth", growth},
		{"3.6 ephemeral", ephemerals},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.test(&world{Client: w.Client, t: t, requests: w.requests})
		})
	}
}

func size(s string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(s)}
}

func claim(name string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("growing"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")},
		},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func pod(name string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}, Volumes: volumes, TerminationGracePeriodSeconds: new(int64(30)),
		},
	}
}

func uses(claim string) corev1.Volume {
	return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// claims stay as long as the object of a pod with a node that names them.
func claims(w *world) {
	used, finished, free := claim("used"), claim("finished"), claim("free")
	for _, c := range []client.Object{used, finished, free, pod("user", uses("used")), pod("finisher", uses("finished"))} {
		w.create(c)
	}
	unscheduled := pod("unscheduled", uses("free"))
	unscheduled.Spec.NodeName = ""
	w.create(unscheduled)
	status(w, pod("finisher"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	for _, c := range []client.Object{used, finished, free} {
		w.delete(c)
	}
	w.goes(free)
	w.stays(used)
	w.stays(finished)
	w.delete(pod("user")) // gracefully: the kubelet has not ended it yet
	w.delete(pod("finisher"), client.GracePeriodSeconds(0))
	w.goes(finished)
	w.stays(used)
	w.delete(pod("user"), client.GracePeriodSeconds(0)) // as the kubelet does in the end
	w.goes(used)

	bare := claim("bare")
	w.create(bare)
	bare.Finalizers = nil
	if err := w.Update(w.t.Context(), bare); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("a claim without finalizer gets it", func() bool { return w.exists(bare) && len(bare.Finalizers) == 1 })
}

// manyClaims counts the requests per claim that is deleted.
func manyClaims(w *world) {
	const many = 300
	all := make([]*corev1.PersistentVolumeClaim, many)
	for i := range all {
		all[i] = claim(fmt.Sprint("many-", i))
		w.create(all[i])
	}
	counts := w.requests.since()
	if err := w.DeleteAllOf(w.t.Context(), &corev1.PersistentVolumeClaim{}, client.InNamespace("default")); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("all claims go", func() bool {
		var left corev1.PersistentVolumeClaimList
		return w.List(w.t.Context(), &left) == nil && len(left.Items) == 0
	})
	got := counts()
	w.t.Logf("%d claims deleted: %v", many, got)
	patches := got["PATCH persistentvolumeclaims"]
	if patches < many || patches > many+1 || got["404"]+got["409"]+got["422"] > 0 { // one more for the claim of another test
		w.t.Errorf("%v", got)
	}
}

func volume(name string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size("1Gi"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: "growing",
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}},
		},
	}
	for _, edit := range edits {
		edit(pv)
	}
	return pv
}

func forClaim(uid types.UID) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c", UID: uid}
	}
}

func phase(phase corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Status.Phase = phase }
}

func volumes(w *world) {
	bound, reserved, wished, free := volume("bound", forClaim("c")), volume("reserved", forClaim("d")), volume("wished", forClaim("")), volume("free")
	for _, pv := range []*corev1.PersistentVolume{bound, reserved, wished, free} {
		w.create(pv)
		status(w, pv, phase(corev1.VolumeAvailable))
	}
	status(w, bound, phase(corev1.VolumeBound))
	for _, pv := range []*corev1.PersistentVolume{bound, reserved, wished, free} {
		w.delete(pv)
	}
	w.goes(free)
	w.goes(wished)
	w.stays(bound)
	w.stays(reserved) // upstream lets it go
	status(w, bound, phase(corev1.VolumeReleased))
	w.goes(bound)
	status(w, reserved, phase(corev1.VolumeFailed))
	w.goes(reserved)
	severalHolders(w)
}

// severalHolders take their finalizers off a volume at the same time. None may bring back another's
// (8.26).
func severalHolders(w *world) {
	const attacher = "external-attacher/d"
	counts := w.requests.since()
	for i := range 20 {
		pv := volume(fmt.Sprint("held-", i), forClaim("c"), func(pv *corev1.PersistentVolume) { pv.Finalizers = []string{attacher, names.FinalizerVolume} })
		w.create(pv)
		status(w, pv, phase(corev1.VolumeReleased))
		w.delete(pv) // ours goes now
		for _, finalizer := range []string{attacher, names.FinalizerVolume} {
			if err := w.Patch(w.t.Context(), pv.DeepCopy(), kube.DropFinalizer(pv, finalizer)); err != nil {
				w.t.Fatal(err)
			}
		}
		w.goes(pv)
	}
	if got := counts(); got["409"]+got["422"] > 0 || got["PATCH persistentvolumes"] > 20 {
		w.t.Errorf("%v", got)
	}
}

func classes(w *world) {
	class := func(name string) *storagev1.VolumeAttributesClass {
		c := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "d", Parameters: map[string]string{"a": "b"}}
		w.create(c)
		return c
	}
	wanted, target, ofVolume, free := class("wanted"), class("target"), class("of-volume"), class("free")
	all := []client.Object{wanted, target, ofVolume, free}
	wants := claim("wants", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = new("wanted") })
	moves := claim("moves")
	has := volume("has", func(pv *corev1.PersistentVolume) { pv.Spec.VolumeAttributesClassName = new("of-volume") })
	for _, o := range []client.Object{wants, moves, has} {
		w.create(o)
	}
	status(w, moves, func(c *corev1.PersistentVolumeClaim) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "target", Status: corev1.PersistentVolumeClaimModifyVolumeInProgress}
	})
	w.eventually("classes are protected", func() bool {
		return !slices.ContainsFunc(all, func(c client.Object) bool { return !w.exists(c) || len(c.GetFinalizers()) != 1 })
	})
	for _, c := range all {
		w.delete(c)
	}
	w.goes(free)
	for _, c := range []client.Object{wanted, target, ofVolume} {
		w.stays(c)
	}
	w.delete(wants)
	w.goes(wanted)
	status(w, moves, func(c *corev1.PersistentVolumeClaim) { c.Status.ModifyVolumeStatus = nil })
	w.goes(target)
	w.delete(has)
	w.goes(ofVolume)
}

func growth(w *world) {
	w.create(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "growing"}, Provisioner: "d", AllowVolumeExpansion: new(true)})
	counts := w.requests.since()
	grow := func(c *corev1.PersistentVolumeClaim, to string) {
		before := c.DeepCopy()
		c.Spec.Resources.Requests = size(to)
		if err := w.Patch(w.t.Context(), c, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
	bound := func(name string, edit func(*corev1.PersistentVolume)) *corev1.PersistentVolumeClaim {
		c := claim(name, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "of-" + name })
		w.create(c)
		w.create(volume("of-"+name, forClaim(c.UID), edit))
		status(w, c, func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, size("1Gi")
		})
		return c
	}
	const waits = "waiting for an external controller to expand this PVC"
	grows := bound("grows", func(*corev1.PersistentVolume) {})
	for i, to := range []string{"2Gi", "3Gi"} {
		grow(grows, to)
		w.eventually("an event says so", func() bool { return w.events("grows", "ExternalExpanding", waits) == i+1 })
	}
	status(w, grows, func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = size("3Gi") })

	moved := bound("moved", func(pv *corev1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "v"}}
	})
	grow(moved, "2Gi")
	w.eventually("the resizer is named", func() bool {
		return w.exists(moved) && moved.Annotations[names.AnnStorageResizer] == "cinder.csi.openstack.org"
	})
	w.eventually("an event says so", func() bool {
		return w.events("moved", "ExternalExpanding", "CSI migration enabled for kubernetes.io/cinder; waiting for external resizer to expand the pvc") == 1
	})
	if got := w.events("grows", "ExternalExpanding", waits); got != 2 {
		w.t.Errorf("told %d times of two wishes", got)
	}
	if got := counts(); got["GET persistentvolumes"] > 0 || got["GET persistentvolumeclaims"] > 0 {
		w.t.Errorf("3.4: asked the API server: %v", got)
	}
}

func ephemerals(w *world) {
	volume := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"l": "1"}}, Spec: claim("").Spec,
			},
		}}}
	}
	taken := claim("a-b-c")
	w.create(taken)
	a := pod("a", volume("b-c"), volume("d"))
	w.create(a)
	other := claim("a-d")
	w.eventually("the second volume has its claim, whatever is with the first", func() bool { return w.exists(other) })
	if !metav1.IsControlledBy(other, a) || other.Labels["l"] != "1" || len(other.Finalizers) != 1 {
		w.t.Errorf("%+v", other.ObjectMeta)
	}
	w.eventually("an event says so", func() bool {
		return w.events("a", "FailedBinding", "ephemeral volume b-c: PVC default/a-b-c was not created for pod default/a (pod is not owner)") > 0
	})
	w.delete(taken)
	w.eventually("the claim is created when its name is free", func() bool { return w.exists(taken) && metav1.IsControlledBy(taken, a) })

	w.delete(other)
	finished := pod("finished", volume("d"))
	w.create(finished)
	gone := claim("finished-d")
	w.eventually("the pod has its claim", func() bool { return w.exists(gone) })
	w.stays(other) // its owner has a node and is not shut down
	status(w, finished, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	w.delete(gone)
	w.stays(gone)
	gone.Finalizers = nil // by force
	if err := w.Update(w.t.Context(), gone); err != nil {
		w.t.Fatal(err)
	}
	w.create(pod("next", volume("d")))
	w.eventually("another pod has its claim", func() bool { return w.exists(claim("next-d")) })
	if w.exists(gone) {
		w.t.Error("a pod that has finished got a new claim")
	}
	w.delete(a, client.GracePeriodSeconds(0))
	w.goes(other)
}
