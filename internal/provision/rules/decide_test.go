package provision

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"google.golang.org/protobuf/testing/protocmp"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

func TestDecide(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		row    string
		s      Snapshot
		reason verdict.Reason
		kind   Verdict
	}{
		{"C-16 AN-1 waiting claim is provisioned", world(), verdict.Provisioning, do{}},
		{"C-4 gone claim, nothing begun", world(noClaim), verdict.ClaimGone, nothing{}},
		{"C-90 C-91 C-92 H-1 gone claim, unresolved entry: repeated to find the volume", world(noClaim, pending), verdict.Provisioning, do{}},
		{"C-91 gone claim, unresolved entry, PV exists: resolved", world(noClaim, pending, volumeOf(uid)), verdict.ClaimGone, do{}},
		{"H-1 gone claim, PV exists, a second volume is known: discarded", world(noClaim, pending, volumeOf(uid), knownAs("h2")), verdict.CleanedUp, do{}},
		{"H-1 gone claim, PV exists with the volume that is known: resolved", world(noClaim, pending, volumeOf(uid), knownAs("h")), verdict.ClaimGone, do{}},
		{"H-1 claim that a watch shows unbound, PV exists, a second volume is known: discarded", world(pending, volumeOf(uid), knownAs("h2")), verdict.VolumeExists, do{}},
		{"H-1 claim that is being deleted, likewise", world(deleting, pending, volumeOf(uid), knownAs("h2")), verdict.CleanedUp, do{}},
		{"H-1 claim that is bound to its PV, likewise", world(boundToOurs(corev1.ClaimBound), pending, volumeOf(uid), knownAs("h2")), verdict.CleanedUp, do{}},
		{
			"H-1 gone claim, unresolved entry, PV of another driver for it: repeated", world(noClaim, pending, volumeOf(uid), ofOtherDriver),
			verdict.Provisioning,
			do{},
		},
		{"H-1 gone claim, unresolved entry, PV of another claim: repeated", world(noClaim, pending, volumeOf("other")), verdict.Provisioning, do{}},
		{
			"H-1 bound to a volume of another driver while ours is unresolved: repeated", world(bound, pending, volumeOf(uid), ofOtherDriver),
			verdict.Provisioning,
			do{},
		},
		{
			"H-1 bound to its volume, of another driver since the class was made again, ours unresolved: repeated",
			world(boundToOurs(corev1.ClaimBound), pending, volumeOf(uid), ofOtherDriver), verdict.Provisioning,
			do{},
		},
		{"H-1 and before it is bound, too", world(pending, volumeOf(uid), ofOtherDriver), verdict.Provisioning, do{}},
		{"H-1 nothing of ours begun: it is the claim's", world(volumeOf(uid), ofOtherDriver), verdict.VolumeExists, nothing{}},
		{"C-11 bound claim", world(bound), verdict.ClaimBound, nothing{}},
		{"C-11 bound to another volume while ours is unresolved: repeated", world(bound, pending), verdict.Provisioning, do{}},
		{"C-11 bound to the volume of the request, which the cache does not have: resolved", world(boundToOurs(corev1.ClaimBound), pending), verdict.ClaimBound, do{}},
		{"C-11 it was bound to it, and lost it: resolved", world(boundToOurs(corev1.ClaimLost), pending), verdict.ClaimBound, do{}},
		{"C-11 the user wrote its name into the claim: repeated", world(boundToOurs(corev1.ClaimPending), pending), verdict.Provisioning, do{}},
		{"1.8 a claim with the annotation of a bound one and no volume gets none", world(annotate(names.AnnBindCompleted, "yes")), verdict.ClaimMarkedBound, wait{}},
		{"1.8 nor does a Lost one", world(func(s *Snapshot) { s.Claim.Status.Phase = corev1.ClaimLost }), verdict.ClaimMarkedBound, wait{}},
		{"H-1 annotated after the request: repeated, to delete the volume", world(annotate(names.AnnBindCompleted, "yes"), pending), verdict.Provisioning, do{}},
		{"H-1 annotated, and the volume is known: discarded", world(annotate(names.AnnBindCompleted, "yes"), pending, knownAs("h2")), verdict.CleanedUp, do{}},
		{"C-12 no annotation", world(func(s *Snapshot) { s.Claim.Annotations = nil }), verdict.ClaimNotOurs, nothing{}},
		{"C-12 another driver", world(annotate(names.AnnStorageProvisioner, "other")), verdict.ClaimNotOurs, nothing{}},
		{"no annotation, handed over by the binder", world(handedOver, unasked), verdict.Provisioning, do{}},
		{"handed over, asked of another before", world(handedOver, annotate(names.AnnStorageProvisioner, "other")), verdict.Provisioning, do{}},
		{"handed over, bound meanwhile", world(handedOver, unasked, bound), verdict.ClaimBound, nothing{}},
		{
			"handed over, class of another provisioner by now",
			world(handedOver, unasked, func(s *Snapshot) { s.Class.Provisioner = "other" }), verdict.ClassNotOurs,
			nothing{},
		},
		{"handed over, first use without a node", world(handedOver, unasked, firstUse), verdict.WaitForConsumer, wait{}},
		{"AN-5 C-12 migrated to our driver", world(unasked, annotate(names.AnnMigratedTo, driver)), verdict.Provisioning, do{}},
		{"AN-2 old annotation alone", world(func(s *Snapshot) {
			s.Claim.Annotations = map[string]string{names.AnnBetaStorageProvisioner: driver}
		}), verdict.Provisioning, do{}},
		{"AN-2 new annotation empty wins over old", world(annotate(names.AnnStorageProvisioner, ""), annotate(names.AnnBetaStorageProvisioner, driver)), verdict.ClaimNotOurs, nothing{}},
		{"C-20 H-5 PV exists", world(volumeOf(uid)), verdict.VolumeExists, nothing{}},
		{"C-20 C-24 EV-5 PV exists, unresolved entry: resolved, with an event", world(volumeOf(uid), pending), verdict.VolumeProvisioned, do{}},
		{"H-5 PV of another claim has our name", world(volumeOf("other")), verdict.VolumeConflict, refuse{}},
		{"C-93 H-42 deleting claim is not begun", world(deleting), verdict.ClaimDeleting, nothing{}},
		{"C-93 deleting claim that was begun is finished", world(deleting, pending), verdict.Provisioning, do{}},
		{"C-14 H-44 class missing", world(func(s *Snapshot) { s.Class = nil }), verdict.ClassMissing, refuse{}},
		{"C-50 no class named", world(func(s *Snapshot) { s.Class, s.Claim.Spec.StorageClassName = nil, nil }), verdict.ClassMissing, refuse{}},
		{"H-47 class missing, unresolved entry: repeated, not forgotten", world(pending, func(s *Snapshot) { s.Class = nil }), verdict.Provisioning, do{}},
		{"C-21 class of another provisioner", world(func(s *Snapshot) { s.Class.Provisioner = "other" }), verdict.ClassNotOurs, nothing{}},
		{"C-15 AN-3 first use without a node", world(firstUse), verdict.WaitForConsumer, wait{}},
		{"C-15 AN-3 first use with a node", world(firstUse, annotate(names.AnnSelectedNode, "n1")), verdict.Provisioning, do{}},
		{"C-54 no controller service", world(func(s *Snapshot) { s.Driver.Plugin = nil }), verdict.DriverLacks, refuse{}},
		{"C-54 no CREATE_DELETE_VOLUME", world(func(s *Snapshot) { s.Driver.Controller = nil }), verdict.DriverLacks, refuse{}},
		{"C-55 selector", world(func(s *Snapshot) { s.Claim.Spec.Selector = &metav1.LabelSelector{} }), verdict.ClaimInvalid, refuse{}},
		{"C-57 filesystem given twice", world(func(s *Snapshot) {
			s.Class.Parameters = map[string]string{"FsType": "xfs", names.ParameterFSType: "ext4"}
		}), verdict.ClassInvalid, refuse{}},
		{"R-14 unknown access mode", world(func(s *Snapshot) { s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Sometimes"} }), verdict.ClaimInvalid, refuse{}},
		{"R-30 C-63 unknown reserved parameter", world(func(s *Snapshot) {
			s.Class.Parameters = map[string]string{"csi.storage.k8s.io/colour": "red"}
		}), verdict.ClassInvalid, refuse{}},
		{"C-61 C-104 8.19 the selected node is gone: it is taken back", world(firstUse, hasTopology, annotate(names.AnnSelectedNode, "n1")), verdict.NodeTopologyUnknown, do{}},
		{"H-8 also when its CSINode lingers", world(firstUse, hasTopology, onNode(nil, driver)), verdict.NodeTopologyUnknown, do{}},
		{"H-8 or when that is gone alone", world(firstUse, hasTopology, onNode(map[string]string{"zone": "a"}, "")), verdict.NodeTopologyUnknown, do{}},
		{"T-22 the driver is not on the node, and may be soon", world(firstUse, hasTopology, onNode(map[string]string{"zone": "a"}, "other")), verdict.NodeTopologyUnknown, refuse{}},
		{
			"H-9 U-15 but not for ever: the scheduler may know a better one",
			world(firstUse, hasTopology, onNode(map[string]string{"zone": "a"}, "other"), failed(failuresBeforeReschedule)), verdict.NodeTopologyUnknown,
			do{},
		},
		{"H-9 what else fails as often is the node's fault no more", world(firstUse, hasTopology, onNode(map[string]string{"zone": "a"}, driver), failed(failuresBeforeReschedule)), verdict.Provisioning, do{}},
		{"T-23 nor does the node say where it is", world(firstUse, hasTopology, onNode(map[string]string{"rack": "1"}, driver)), verdict.NodeTopologyUnknown, refuse{}},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got := settled(tc.s, now)
			if got.Because().Reason != tc.reason {
				t.Errorf("reason = %s (%s), want %s", got.Because().Reason, got.Because().Text(), tc.reason)
			}
			if diff := cmp.Diff(kind(tc.kind), kind(got)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func kind(v Verdict) string {
	switch v.(type) {
	case nothing:
		return "nothing"
	case wait:
		return "wait"
	case refuse:
		return "refuse"
	case do:
		return "do"
	}
	return "nil"
}

// H-1: a request is written to the journal before it is sent, and exactly the written request is
// sent.
func TestDecideRecordsBeforeItCreates(t *testing.T) {
	v, ok := settled(world(), time.Unix(0, 0)).(do)
	if !ok || len(v.Actions) != 2 {
		t.Fatalf("want two actions, got %+v", v)
	}
	record, isRecord := v.Actions[0].(Record)
	create, isCreate := v.Actions[1].(CreateVolume)
	if !isRecord || !isCreate {
		t.Fatalf("want Record, CreateVolume, got %T, %T", v.Actions[0], v.Actions[1])
	}
	if diff := cmp.Diff(record.Entry.Request, create.Request, protocmp.Transform()); diff != "" {
		t.Errorf("recorded and sent request differ:\n%s", diff)
	}
	if record.Entry.UID != uid || record.Entry.VolumeName != pvName {
		t.Errorf("entry is for %s %s", record.Entry.UID, record.Entry.VolumeName)
	}
}

// C-45, H-7: a repeated request is the recorded one, whatever the world looks like by now.
func TestDecideRepeatsTheRecordedRequest(t *testing.T) {
	s := world(pending, func(s *Snapshot) { s.Class.Parameters["tier"] = "tape" })
	create, ok := settled(s, time.Unix(0, 0)).(do).Actions[1].(CreateVolume)
	if !ok || create.Request.GetParameters()["tier"] != "ssd" {
		t.Errorf("request was made anew: %v", create.Request)
	}
}

func annotated(s *Snapshot) {
	s.Claim.Annotations = maps.Clone(s.Claim.Annotations)
	s.Claim.Annotations["example.com/note"] = "try again"
}

func labelled(s *Snapshot) { s.Claim.Labels = map[string]string{"example.com/note": "try-again"} }

// H-43, C-1, C-3: a delay ends when any input changes, and holds otherwise.
func TestDecideRetryState(t *testing.T) {
	now := time.Unix(1000, 0)
	held := RetryState{NotBefore: now.Add(time.Minute), Inputs: Inputs(world())}
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want verdict.Reason
	}{
		{"not due", world(), verdict.WaitForRetry},
		{"class created again", world(func(s *Snapshot) { s.Class.UID = "other" }), verdict.Provisioning},
		{"parameter changed", world(func(s *Snapshot) { s.Class.Parameters["tier"] = "tape" }), verdict.Provisioning},
		{"size changed", world(func(s *Snapshot) {
			s.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		}), verdict.Provisioning},
		{"H-43 mount options edited", world(func(s *Snapshot) { s.Class.MountOptions = []string{"noatime"} }), verdict.Provisioning},
		{"C-1 C-3 an annotation edited", world(annotated), verdict.Provisioning},
		{"C-1 C-3 a label edited", world(labelled), verdict.Provisioning},
		{"C-1 C-3 an annotation edited, the outcome is uncertain", world(pending, annotated), verdict.Provisioning},
		{"C-1 C-3 a label edited, the outcome is uncertain", world(pending, labelled), verdict.Provisioning},
		{"nothing edited, the outcome is uncertain", world(pending), verdict.WaitForRetry},
		{"only the resource version changed", world(func(s *Snapshot) { s.Claim.ResourceVersion = "other" }), verdict.WaitForRetry},
		{"a verdict without action is given at once", world(bound), verdict.ClaimBound},
	} {
		t.Run(tc.row, func(t *testing.T) {
			tc.s.Retry = held
			if got := settled(tc.s, now).Because().Reason; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	allowed := func(s *Snapshot) { s.Class.AllowedTopologies = []corev1.TopologySelectorTerm{{}} }
	if Inputs(world(allowed)) == Inputs(world()) {
		t.Error("H-43: allowed topologies that were taken away do not end the delay of the claim that was refused for them")
	}
	repeated := world(pending, func(s *Snapshot) {
		s.Retry = RetryState{NotBefore: now.Add(time.Minute), Inputs: "of the attempt before it was in the journal"}
	})
	if got := settled(repeated, now).Because().Reason; got != verdict.WaitForRetry {
		t.Errorf("what is in the journal is repeated as it is, so nothing cuts its delay: got %s", got)
	}
	due := world(func(s *Snapshot) { s.Retry = RetryState{NotBefore: now, Inputs: Inputs(world())} })
	if got := settled(due, now).Because().Reason; got != verdict.Provisioning {
		t.Errorf("due: got %s", got)
	}
}

func TestNewRequest(t *testing.T) {
	mount := func(mode csi.VolumeCapability_AccessMode_Mode, fs string, flags ...string) *csi.VolumeCapability {
		return &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs, MountFlags: flags}},
		}
	}
	writer := csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	base := func(edit func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
		r := &csi.CreateVolumeRequest{
			Name: pvName, CapacityRange: &csi.CapacityRange{RequiredBytes: 1 << 30},
			VolumeCapabilities: []*csi.VolumeCapability{mount(writer, "")},
			Parameters:         map[string]string{"tier": "ssd"},
		}
		edit(r)
		return r
	}
	modes := func(modes ...corev1.PersistentVolumeAccessMode) func(*Snapshot) {
		return func(s *Snapshot) { s.Claim.Spec.AccessModes = modes }
	}
	multi := func(s *Snapshot) { s.Driver.MultiWriters = true }
	placed := []*csi.Topology{{Segments: map[string]string{"zone": "a"}}}
	for _, tc := range []struct {
		row  string
		s    Snapshot
		want *csi.CreateVolumeRequest
	}{
		{"R-1 R-2 R-20 plain", world(), base(func(*csi.CreateVolumeRequest) {})},
		{
			"R-1 short name", world(func(s *Snapshot) { s.Options.NamePrefix, s.Options.NameUUIDLength = "vol", 10 }),
			base(func(r *csi.CreateVolumeRequest) { r.Name = "vol-0a1b2c3d00" }),
		},
		{"R-2 size rounds up", world(func(s *Snapshot) {
			s.Claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1500m")
		}), base(func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 2 })},
		{
			"R-2 no size", world(func(s *Snapshot) { s.Claim.Spec.Resources = corev1.VolumeResourceRequirements{} }),
			base(func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 0 }),
		},
		{
			"R-3 R-12 R-13 modes in order", world(modes(corev1.ReadWriteMany, corev1.ReadOnlyMany)),
			base(func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities = []*csi.VolumeCapability{
					mount(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, ""), mount(csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, ""),
				}
			}),
		},
		{"R-10 RWO with SINGLE_NODE_MULTI_WRITER", world(multi), base(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = []*csi.VolumeCapability{mount(csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, "")}
		})},
		{"R-11 RWOP", world(modes(corev1.ReadWriteOncePod)), base(func(*csi.CreateVolumeRequest) {})},
		{"R-11 RWOP with SINGLE_NODE_MULTI_WRITER", world(modes(corev1.ReadWriteOncePod), multi), base(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = []*csi.VolumeCapability{mount(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, "")}
		})},
		{"R-20 R-22 block ignores the filesystem", world(func(s *Snapshot) {
			s.Claim.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
			s.Class.Parameters[names.ParameterFSType] = "xfs"
		}), base(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = []*csi.VolumeCapability{{
				AccessMode: &csi.VolumeCapability_AccessMode{Mode: writer},
				AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			}}
		})},
		{"R-21 filesystem and mount options; the key is stripped", world(func(s *Snapshot) {
			s.Class.Parameters[names.ParameterFSType] = "xfs"
			s.Class.MountOptions = []string{"noatime"}
		}), base(func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities = []*csi.VolumeCapability{mount(writer, "xfs", "noatime")}
		})},
		{
			"R-21 old key is passed on", world(func(s *Snapshot) { s.Class.Parameters["FSType"] = "xfs" }),
			base(func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities = []*csi.VolumeCapability{mount(writer, "xfs")}
				r.Parameters["FSType"] = "xfs"
			}),
		},
		{
			"F-15 default filesystem", world(func(s *Snapshot) { s.Options.DefaultFSType = "ext4" }),
			base(func(r *csi.CreateVolumeRequest) {
				r.VolumeCapabilities = []*csi.VolumeCapability{mount(writer, "ext4")}
			}),
		},
		{"R-32 extra metadata", world(func(s *Snapshot) { s.Options.ExtraCreateMetadata = true }), base(func(r *csi.CreateVolumeRequest) {
			r.Parameters[names.ParameterPVCName], r.Parameters[names.ParameterPVCNamespace], r.Parameters[names.ParameterPVName] = "logbook", "crew", pvName
		})},
		{"T-10 selected node's place", world(firstUse, hasTopology, annotate(names.AnnSelectedNode, "n1"), func(s *Snapshot) {
			s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"zone": "a", "other": "x"}}}
			s.CSINode = &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, TopologyKeys: []string{"zone"}}}}}
		}), base(func(r *csi.CreateVolumeRequest) {
			r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: placed, Preferred: placed}
		})},
	} {
		t.Run(tc.row, func(t *testing.T) {
			before := tc.s.Class.DeepCopy()
			got, finding := NewRequest(tc.s)
			if finding != nil {
				t.Fatal(finding.Text())
			}
			if diff := cmp.Diff(tc.want, got, protocmp.Transform(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.s.Class); diff != "" {
				t.Errorf("the class was changed:\n%s", diff)
			}
		})
	}
}

// A person must be able to act on a refusal: it names the field or the object, and the value.
func TestRefusalsNameWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		s    Snapshot
		want string
	}{
		{world(func(s *Snapshot) { s.Class = nil }), `StorageClass "fast" does not exist`},
		{world(func(s *Snapshot) { s.Class.Parameters = map[string]string{"csi.storage.k8s.io/colour": "red"} }), "csi.storage.k8s.io/colour"},
		{world(func(s *Snapshot) { s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Sometimes"} }), `"Sometimes"`},
	} {
		if got := settled(tc.s, time.Time{}).Because().Text(); !strings.Contains(got, tc.want) {
			t.Errorf("%q does not say %q", got, tc.want)
		}
	}
}
