package mounting

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// 5.2: which volumes of a pod are resolved, and why others are not yet.
func TestResolve(t *testing.T) {
	pv := use("p").PV.DeepCopy()
	pv.Spec.ClaimRef = &corev1.ObjectReference{UID: "c-uid"}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "c-uid"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	type world struct {
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		pv    *corev1.PersistentVolume
	}
	for row, tc := range map[string]struct {
		edit func(*world)
		want string
	}{
		"a bound claim":              {func(*world) {}, "pv Filesystem"},
		"no container uses it":       {func(w *world) { w.pod.Spec.Containers[0].VolumeMounts = nil }, ""},
		"another kind of volume":     {func(w *world) { w.pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{} }, ""},
		"no CSI volume":              {func(w *world) { w.pv.Spec.CSI = nil }, ""},
		"no claim":                   {func(w *world) { w.claim = nil }, "MountClaimAwaited"},
		"not bound":                  {func(w *world) { w.claim.Status.Phase = corev1.ClaimPending }, "MountClaimAwaited"},
		"no PersistentVolume":        {func(w *world) { w.pv = nil }, "MountClaimAwaited"},
		"another claim's":            {func(w *world) { w.pv.Spec.ClaimRef.UID = "other" }, "MountClaimAwaited"},
		"being deleted, unprotected": {func(w *world) { w.claim.DeletionTimestamp = &metav1.Time{Time: now} }, "MountClaimAwaited"},
		"being deleted, protected": {func(w *world) {
			w.claim.DeletionTimestamp, w.claim.Finalizers = &metav1.Time{Time: now}, []string{"kubernetes.io/pvc-protection"}
		}, "pv Filesystem"},
		"block, as a mount": {func(w *world) { w.pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, "MountUnfit"},
		"read-only":         {func(w *world) { w.pv.Spec.CSI.ReadOnly = true }, "pv Filesystem read-only"},
		"ephemeral, not the pod's": {func(w *world) {
			w.pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
		}, "MountClaimAwaited"},
	} {
		w := world{pod: &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{VolumeMounts: []corev1.VolumeMount{{Name: "v"}}}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
			}}},
		}}, claim: claim.DeepCopy(), pv: pv.DeepCopy()}
		tc.edit(&w)
		uses, problems := Resolve(w.pod, Objects{
			Claim:  func(string, string) *corev1.PersistentVolumeClaim { return w.claim },
			Volume: func(string) *corev1.PersistentVolume { return w.pv },
		})
		var got []string
		for _, u := range uses {
			text := fmt.Sprintf("%s %s", u.ID.Spec, u.ID.Mode)
			if u.ReadOnly {
				text += " read-only"
			}
			got = append(got, text)
		}
		for _, p := range problems {
			got = append(got, string(p.Reason))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", row, got, tc.want)
		}
	}
}

// 5.10: what becomes of a pod.
func TestDecidePod(t *testing.T) {
	running := []corev1.ContainerStatus{{ContainerID: "c://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	deleted := metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: now}}
	published := []PodVolume{{Name: "v", Published: true}}
	for row, tc := range map[string]struct {
		s    PodSnapshot
		want string
	}{
		"gone, with a folder":            {PodSnapshot{HasFolder: true}, "CleanPod"},
		"gone, with a volume":            {PodSnapshot{HasFolder: true, Recorded: 1}, "PodUnmounting"},
		"terminating, with a volume":     {PodSnapshot{Pod: &corev1.Pod{ObjectMeta: deleted}, Recorded: 1}, "PodUnmounting"},
		"terminating":                    {PodSnapshot{Pod: &corev1.Pod{ObjectMeta: deleted}, HasFolder: true}, "CleanPod FinishPod"},
		"terminating, a container runs":  {PodSnapshot{Pod: &corev1.Pod{ObjectMeta: deleted, Status: corev1.PodStatus{ContainerStatuses: running}}, Runtime: ForeignContainers}, "PodMounted"},
		"terminating, another program's": {PodSnapshot{Pod: &corev1.Pod{ObjectMeta: deleted}, HasFolder: true, Runtime: ForeignContainers}, "PodUnmounted"},
		"published":                      {PodSnapshot{Pod: &corev1.Pod{}, Volumes: published}, "SetStatus NotePod"},
		"published, another program's":   {PodSnapshot{Pod: &corev1.Pod{}, Volumes: published, Runtime: ForeignContainers}, "PodMounted"},
		"being worked on":                {PodSnapshot{Pod: &corev1.Pod{}, Volumes: []PodVolume{{Name: "v"}}}, "PodMounting"},
		"one failed":                     {PodSnapshot{Pod: &corev1.Pod{}, Volumes: []PodVolume{{Name: "v", Why: verdict.Finding{Reason: verdict.StageFailed}}}}, "SetStatus"},
		"a claim is not bound":           {PodSnapshot{Pod: &corev1.Pod{}, Problems: []Problem{{Volume: "v"}}}, "SetStatus TellPod"},
	} {
		var got string
		switch v := DecidePod(tc.s).(type) {
		case verdict.Do[PodAction]:
			var names []string
			for _, a := range v.Actions {
				names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", a), "mounting."))
			}
			got = strings.Join(names, " ")
		default:
			got = string(v.Because().Reason)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
}

// What a pod waits for is the reason of an event after a minute; what failed has said so before.
func TestPodWaitsFor(t *testing.T) {
	why := func(r verdict.Reason) PodVolume { return PodVolume{Name: "v", Why: verdict.Finding{Reason: r}} }
	for row, tc := range map[string]struct {
		volumes  []PodVolume
		problems []Problem
		want     verdict.Reason
		said     bool // by an event of its own
	}{
		"the driver":              {[]PodVolume{why(verdict.MountDriverAwaited)}, nil, verdict.MountDriverAwaited, false},
		"the attachment":          {[]PodVolume{{Published: true}, why(verdict.MountAttachAwaited)}, nil, verdict.MountAttachAwaited, false},
		"a call":                  {[]PodVolume{why("")}, nil, verdict.PodMounting, false},
		"a failure":               {[]PodVolume{why(verdict.StageFailed)}, nil, verdict.StageFailed, true},
		"a failure and a wait":    {[]PodVolume{why(verdict.PublishFailed), why(verdict.MountTaken)}, nil, verdict.MountTaken, false},
		"a failure and a call":    {[]PodVolume{why(verdict.PublishFailed), why("")}, nil, verdict.PodMounting, false},
		"a claim":                 {nil, []Problem{{Finding: verdict.Finding{Reason: verdict.MountClaimAwaited}}}, verdict.MountClaimAwaited, true},
		"a claim and the driver":  {[]PodVolume{why(verdict.MountDriverAwaited)}, []Problem{{Finding: verdict.Finding{Reason: verdict.MountClaimAwaited}}}, verdict.MountDriverAwaited, false},
		"a volume that is unfit":  {[]PodVolume{why(verdict.MountUnfit)}, nil, verdict.MountUnfit, false},
		"nothing, all is mounted": {[]PodVolume{{Published: true}}, nil, verdict.PodMounted, true},
	} {
		v := DecidePod(PodSnapshot{Pod: &corev1.Pod{}, Volumes: tc.volumes, Problems: tc.problems, Runtime: ForeignContainers})
		if todo, acts := v.(verdict.Do[PodAction]); acts {
			v = todo.Then
		}
		if got := v.Because().Reason; got != tc.want || (verdict.WaitsLong(got) != "") != tc.said {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
}

// 5.6: who sets the group of the files.
func TestOwnershipOf(t *testing.T) {
	grouped := func(u *Use) { u.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(7))} }
	policy := func(p storagev1.FSGroupPolicy) func(*Snapshot) {
		return func(s *Snapshot) { s.Info.Spec.FSGroupPolicy = &p }
	}
	for row, tc := range map[string]struct {
		s    Snapshot
		u    Use
		want bool
	}{
		"no group":                 {snapshot(), use("a"), false},
		"the default policy":       {snapshot(), use("a", grouped), true},
		"no filesystem type":       {snapshot(), use("a", grouped, func(u *Use) { u.PV.Spec.CSI.FSType = "" }), false},
		"no type, policy File":     {snapshot(policy(storagev1.FileFSGroupPolicy)), use("a", grouped, func(u *Use) { u.PV.Spec.CSI.FSType = "" }), true},
		"policy None":              {snapshot(policy(storagev1.NoneFSGroupPolicy)), use("a", grouped), false},
		"read-only":                {snapshot(policy(storagev1.FileFSGroupPolicy)), use("a", grouped, func(u *Use) { u.ReadOnly = true }), false},
		"the driver sets it":       {snapshot(func(s *Snapshot) { s.Driver.MountGroup = true }), use("a", grouped), false},
		"a raw block volume":       {snapshot(), use("a", grouped, block), false},
		"many nodes, the default":  {snapshot(), use("a", grouped, func(u *Use) { u.PV.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany} }), false},
		"no CSIDriver, as default": {snapshot(func(s *Snapshot) { s.Info = nil }), use("a", grouped), true},
	} {
		if _, got, err := tc.s.OwnershipOf(tc.u); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v; want %t", row, got, err, tc.want)
		}
	}
	// ND-4.
	if FileMode(0o644, File) != 0o664 || FileMode(0o755, Folder) != 0o2775 || (Ownership{Group: 7}).IsOwned(7, 0o755) || !(Ownership{Group: 7}).IsOwned(7, 0o2770) {
		t.Error("modes")
	}
}
