package binding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/core/names"
)

// A row is one line of the specification: what the cluster is like, and what is decided about it.
//
// To add one, describe the claim and the volumes with the edits of build_test.go
//
//	pair(claim(ofClass("gold")), aVolume(forClaim("u"), sized("5Gi")))
//
// and what else the decision depends on with given(…, inClass(gold)). What is wanted is written as
// [show] writes a verdict: the actions in their order, each by its type in snapshot.go with what it
// is about, and how the run ends, with the reason.
//
//	Reserve v; ClaimVolume v marked; Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound
//
// A row that fails prints both, so it can be begun with an empty want.
type row struct {
	name string // which begins with the ID of the row in docs/spec
	s    Snapshot
	want string
}

func decides(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := show(Decide(r.s)); got != r.want {
				t.Errorf("\ngot  %s\nwant %s", got, r.want)
			}
		})
	}
}

// T1, the claim's table. Its rows are numbered in their order.
func TestClaim(t *testing.T) {
	const all = "ClaimVolume v marked; Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound"
	gold, late := class("gold", "d"), class("late", "d", waitsForPod)
	onNode := claimed(names.AnnSelectedNode, "n1")
	decides(t, []row{
		{
			"T1.1 a volume with the claim's uid is for it, as a provisioner writes it", pair(claim(ofClass("gold")), aVolume(forClaim("u"), phase(corev1.VolumePending))),
			"Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{"T1.1 a volume with the claim's name gets its uid", pair(claim(), aVolume(forClaim(""), isKept)), "ClaimVolume v; Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{
			"T1.1 of a reserved volume neither class nor phase matters", pair(claim(ofClass("a")), aVolume(forClaim("u"), classed("b"), phase(corev1.VolumePending))),
			"Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{
			"T1.1 nor that the class waits for a pod", given(pair(claim(ofClass("late")), aVolume(forClaim("u"), phase(corev1.VolumeBound))), inClass(late)),
			"Complete claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{
			"T1.1 the uid counts for more than the name", pair(claim(), aVolume(named("a"), forClaim(""), phase(corev1.VolumePending)), aVolume(forClaim("u"), sized("5Gi"))),
			"Complete volume and claim of v marked; SetClaimStatus Bound 5Gi; SetVolumePhase a Available as seen; nothing: ClaimBound",
		},
		{
			"T1.1 then the size, then the name", pair(claim(), aVolume(named("z"), forClaim("")), aVolume(named("a"), forClaim(""), isKept), aVolume(named("b"), forClaim(""), sized("2Gi"))),
			"ClaimVolume a; Complete volume and claim of a marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{"T1.1 a reserved volume that is too small is none", pair(claim(), aVolume(forClaim(""), sized("1Mi"))), "wait: NoVolumeAndNoClass"},
		{"T1.1 nor one that is going", pair(claim(), aVolume(forClaim(""), goingVolume)), "wait: NoVolumeAndNoClass"},
		{
			"T1.1 but one that the claim has been given is kept for it", pair(claim(), aVolume(forClaim("u"), goingVolume)),
			"Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{
			"T1.1 if there is none that stays", pair(claim(), aVolume(named("a"), forClaim("u"), goingVolume), aVolume(named("b"), forClaim("u"))),
			"Complete volume and claim of b marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},
		{"T1.1 nor one for a former claim of the name", given(pair(claim(), aVolume(forClaim("old"), phase(corev1.VolumeReleased))), isGone("old")), "wait: NoVolumeAndNoClass"},
		{
			"T1.1 nor one of the other volume mode, which is said", pair(claim(), aVolume(forClaim("u"), isRaw)),
			"Tell volume VolumeUnfit; Tell claim VolumeUnfit; wait: NoVolumeAndNoClass",
		},

		{"T1.2 the best volume that is there", given(pair(claim()), offered(aVolume(isKept))), "Reserve v; " + all},
		{"I3 T1.2 one that is deleted with its claim: asked whether that is there", given(pair(claim()), offered(aVolume())), "Reserve v; AskAPI claim"},
		{"I3 T1.2 and then bound", given(pair(claim()), offered(aVolume()), claimAsked), "Reserve v; " + all},
		{"T1.2 before the default class", given(pair(claim(withoutClass)), offered(aVolume(isKept)), byDefault(gold)), "Reserve v; " + all},
		{"T1.2 the default class", given(pair(claim(withoutClass)), byDefault(gold)), "AssignClass gold; wait: ClassAwaited"},
		{"T1.2 an empty class is a choice", given(pair(claim()), byDefault(gold)), "wait: NoVolumeAndNoClass"},
		{"T1.2 the old annotation is a choice, too", given(pair(claim(withoutClass, claimed(names.AnnBetaStorageClass, ""))), byDefault(gold)), "wait: NoVolumeAndNoClass"},
		{"T1.2 no class and no default", pair(claim(withoutClass)), "wait: NoVolumeAndNoClass"},
		{"T1.2 a provisioner is asked", given(pair(claim(ofClass("gold"))), inClass(gold)), "AskProvisioner d; wait: ExternalProvisioning"},
		{"T1.2 once", given(pair(claim(ofClass("gold"), claimed(names.AnnStorageProvisioner, "d"))), inClass(gold)), "wait: ExternalProvisioning"},
		{"T1.2 and again when the class has another one", given(pair(claim(ofClass("gold"), claimed(names.AnnStorageProvisioner, "e"))), inClass(gold)), "AskProvisioner d; wait: ExternalProvisioning"},
		{"T1.2 the one in this process is given the claim", given(pair(claim(ofClass("gold"))), inClass(gold), func(s *Snapshot) { s.InProcess = true }), "HandOver d; wait: HandedOver"},
		{
			"T1.2 for a plugin that was in the tree, the driver that took over", given(pair(claim(ofClass("old"))), inClass(class("old", "kubernetes.io/aws-ebs"))),
			"AskProvisioner ebs.csi.aws.com; wait: ExternalProvisioning",
		},
		{"T1.2 a class that is missing", pair(claim(ofClass("gold"))), "wait: ClassMissing"},
		{"T1.2 a class without a provisioner", given(pair(claim(ofClass("local"))), inClass(class("local", "kubernetes.io/no-provisioner"))), "wait: ProvisionerUnknown"},
		{"T1.2 a class that waits for a pod takes no volume without a claimRef", given(pair(claim(ofClass("late"))), inClass(late), offered(aVolume())), "wait: WaitForFirstConsumer"},
		{"T1.2 pods are named", given(pair(claim(ofClass("late"))), inClass(late), func(s *Snapshot) { s.Pods = []Consumer{{Pod: "b"}, {Pod: "a"}} }), "wait: WaitForPodScheduled"},
		{"T1.2 a node was picked", given(pair(claim(ofClass("late"), onNode)), inClass(late), offered(aVolume())), "AskProvisioner d; wait: ExternalProvisioning"},
		{"T1.2 no volume for a claim on its way out", given(pair(claim(ofClass("gold"), goingClaim)), inClass(gold), offered(aVolume())), "wait: ClaimDeleting"},
		{"T1.2 a status that says too much is taken back", pair(claim(isBound)), "SetClaimStatus Pending; wait: NoVolumeAndNoClass"},

		{"T1.3 the reference is lost", pair(claim(isComplete, isBound)), "SetClaimStatus Lost; wait: ClaimLost"},
		{"T1.3 once", pair(claim(isComplete, inPhase(corev1.ClaimLost))), "wait: ClaimStaysLost"},

		{"T1.4 the volume that was chosen does not exist", pair(claim(wants("v"))), "wait: VolumeAwaited"},
		{"T1.4 and the status says nothing else", pair(claim(wants("v"), inPhase(corev1.ClaimLost))), "SetClaimStatus Pending; wait: VolumeAwaited"},

		{"I3 T1.5 the volume that was chosen is deleted with its claim", pair(claim(wants("v")), aVolume()), "AskAPI claim"},
		{"T1.5 the volume that was chosen is free", pair(claim(wants("v")), aVolume(isKept)), "ClaimVolume v marked; Complete volume and claim of v; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{"T1.5 and too small", pair(claim(wants("v")), aVolume(sized("1Mi"))), "wait: VolumeUnfit"},
		{"T1.5 of another class", pair(claim(wants("v")), aVolume(classed("gold"))), "wait: VolumeUnfit"},
		{"T1.5 raw", pair(claim(wants("v")), aVolume(isRaw)), "wait: VolumeUnfit"},
		{"T1.5 going", pair(claim(wants("v")), aVolume(goingVolume)), "wait: VolumeUnfit"},
		{"1.7 T1.5 no volume for a claim on its way out, with which it might be deleted", pair(claim(wants("v"), goingClaim), aVolume()), "wait: ClaimDeleting"},
		{"1.7 T1.5 unless one names it", pair(claim(wants("v"), goingClaim), aVolume(forClaim(""), isKept)), "ClaimVolume v; Complete volume and claim of v; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{"1.8 T1.9 or was bound to it", pair(claim(wants("v"), goingClaim, isComplete, isBound), aVolume(isKept)), "ClaimVolume v marked; Complete volume v; nothing: ClaimBound"},

		{"I3 T1.6 both chose each other, and it is deleted with its claim", pair(claim(wants("v")), aVolume(forClaim(""))), "AskAPI claim"},
		{"T1.6 both chose each other by name", pair(claim(wants("v")), aVolume(forClaim(""), isKept)), "ClaimVolume v; Complete volume and claim of v; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{"T1.6 and by uid", pair(claim(wants("v")), aVolume(forClaim("u"))), "Complete volume and claim of v; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{"T1.6 whether or not they fit", pair(claim(wants("v")), aVolume(forClaim("u"), sized("1Mi"))), "Complete volume and claim of v; SetClaimStatus Bound 1Mi; nothing: ClaimBound"},

		{"T1.7 the volume is for another claim", pair(claim(wants("v")), aVolume(forOther)), "wait: VolumeTaken"},
		{"T1.7 or for a former one of the name", given(pair(claim(wants("v")), aVolume(forClaim("old"))), isGone("old")), "SetVolumePhase v Released as seen; wait: VolumeTaken"},

		{"T1.8 the volume is gone: asked before it is said", pair(claim(wants("v"), isComplete, isBound)), "AskAPI volumes"},
		{"T1.8 and then said", given(pair(claim(wants("v"), isComplete, isBound)), volumesAsked), "SetClaimStatus Lost; wait: ClaimLost"},
		{"T1.8 once", pair(claim(wants("v"), isComplete, inPhase(corev1.ClaimLost))), "wait: ClaimStaysLost"},

		{"I3 T1.9 repair with what is deleted with its claim", pair(claim(wants("v"), isComplete, isBound), aVolume()), "AskAPI claim"},
		{"T1.9 repair", pair(claim(wants("v"), isComplete, isBound), aVolume(isKept)), "ClaimVolume v marked; Complete volume v; nothing: ClaimBound"},

		{"T1.10 all is well", pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"), phase(corev1.VolumeBound))), "nothing: ClaimBound"},
		{"T1.10 W2 is missing", pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"))), "Complete volume v; nothing: ClaimBound"},
		{"T1.10 W4 is missing", pair(claim(wants("v"), isComplete), aVolume(forClaim("u"), phase(corev1.VolumeBound))), "SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{
			"T1.10 a lost claim whose volume is back: asked", pair(claim(wants("v"), isComplete, inPhase(corev1.ClaimLost)), aVolume(forClaim("u"))),
			"AskAPI volumes",
		},
		{
			"T1.10 the API server has it", given(pair(claim(wants("v"), isComplete, inPhase(corev1.ClaimLost)), aVolume(forClaim("u"))), volumesAsked),
			"Complete volume v; SetClaimStatus Bound 1Gi; nothing: ClaimBound",
		},

		{"T1.11 the volume is another's: asked before it is said", pair(claim(wants("v"), isComplete, isBound), aVolume(forOther)), "AskAPI volumes"},
		{"T1.11 and then said", given(pair(claim(wants("v"), isComplete, isBound), aVolume(forOther)), volumesAsked), "SetClaimStatus Lost; wait: ClaimMisbound"},
		{"T1.11 asked in two steps", given(pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("old"), isKept)), claimAsked), "AskAPI claim volumes; SetVolumePhase v Released; Tell volume VolumeReleased"},
		{
			"T1.11 and both answers are kept", given(pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("old"), isKept)), claimAsked, volumesAsked),
			"SetClaimStatus Lost; SetVolumePhase v Released; Tell volume VolumeReleased; wait: ClaimMisbound",
		},
		{
			"T1.11 without a uid it is free", given(pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim(""))), volumesAsked),
			"SetClaimStatus Lost; wait: ClaimMisbound",
		},
	})
}

// T2, the volume's table: a free or reserved, b claim gone, c claim unbound, d bound here, e and f
// bound elsewhere.
func TestVolume(t *testing.T) {
	made := marked(names.AnnProvisionedBy, "d")
	loose := func(v *pv) Snapshot { return Snapshot{Key: KeyOf(v), Refs: []*pv{v}} }
	elsewhere := claim(wants("w"), isComplete, isBound)
	other := aVolume(named("w"), forClaim("u"), phase(corev1.VolumeBound))
	decides(t, []row{
		{"T2.a new", loose(aVolume(phase(corev1.VolumePending))), "SetVolumePhase v Available as seen; nothing: VolumeAvailable"},
		{"T2.a scrubbed by an administrator", loose(aVolume(phase(corev1.VolumeReleased))), "SetVolumePhase v Available as seen; nothing: VolumeAvailable"},
		{"T2.a also after a failure", loose(aVolume(phase(corev1.VolumeFailed))), "SetVolumePhase v Available as seen; nothing: VolumeAvailable"},
		{"T2.a nothing to say", loose(aVolume()), "nothing: VolumeAvailable"},
		{"T2.a gone", Snapshot{Key: Key{Volume: "v"}}, "nothing: VolumeGone"},
		{"T2.a reserved for a claim that is not there", pair(nil, aVolume(forClaim(""), phase(corev1.VolumePending))), "SetVolumePhase v Available as seen; nothing: ClaimGone"},
		{"T2.a reserved for a claim that has another one", pair(elsewhere, other, aVolume(forClaim(""), phase(corev1.VolumePending))), "SetVolumePhase v Available as seen; nothing: ClaimBound"},

		{"T2.b asked before it is released (I3)", pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeBound))), "AskAPI claim"},
		{"T2.b its deletion was seen", given(pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeBound))), isGone("u")), "SetVolumePhase v Released as seen; nothing: ClaimGone"},
		{"T2.b that of another was: asked", given(pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeBound))), isGone("u0")), "AskAPI claim"},
		{"T2.b the API server has none", given(pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeBound))), claimAsked), "SetVolumePhase v Released as seen; nothing: ClaimGone"},
		{"T2.b another claim of the name: asked", pair(claim(), aVolume(forClaim("old"), phase(corev1.VolumeBound))), "AskAPI claim"},
		{"T2.b the API server has another one", given(pair(claim(), aVolume(forClaim("old"), phase(corev1.VolumeBound))), claimAsked), "SetVolumePhase v Released as seen; wait: NoVolumeAndNoClass"},
		{"T2.b released is not asked about again", pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeReleased))), "nothing: ClaimGone"},
		{"T2.b failed stays failed", given(pair(nil, aVolume(forClaim("u"), phase(corev1.VolumeFailed))), isGone("u")), "nothing: ClaimGone"},
		{"T2.b a claim that is going exists (P7)", pair(claim(wants("v"), isComplete, isBound, goingClaim), aVolume(forClaim("u"), phase(corev1.VolumeBound))), "nothing: ClaimBound"},
		{"T2.b Retain", given(pair(nil, aVolume(forClaim("u"), policy(corev1.PersistentVolumeReclaimRetain), onHost)), isGone("u")), "SetVolumePhase v Released; Tell volume VolumeReleased; nothing: ClaimGone"},
		{
			"T2.b Recycle is not done (1.14)", given(pair(nil, aVolume(forClaim("u"), policy(corev1.PersistentVolumeReclaimRecycle))), isGone("u")),
			"SetVolumePhase v Failed; Tell volume VolumeNotRecycled; nothing: ClaimGone",
		},
		{
			"T2.b nor is a policy that does not exist", given(pair(nil, aVolume(forClaim("u"), policy("Burn"))), isGone("u")),
			"SetVolumePhase v Failed; Tell volume ReclaimPolicyUnknown; nothing: ClaimGone",
		},
		{
			"T2.b nor are volumes that no driver serves", given(pair(nil, aVolume(forClaim("u"), onHost)), isGone("u")),
			"SetVolumePhase v Failed as seen; Tell volume VolumeNotDeletable; nothing: ClaimGone",
		},
		{"T2.b a provisioner of such volumes deletes them", given(pair(nil, aVolume(forClaim("u"), onHost, made)), isGone("u")), "SetVolumePhase v Released as seen; nothing: ClaimGone"},
		{
			"T2.b a plugin that was in the tree does not", given(pair(nil, aVolume(forClaim("u"), onHost, marked(names.AnnProvisionedBy, "kubernetes.io/host-path"))), isGone("u")),
			"SetVolumePhase v Failed as seen; Tell volume VolumeNotDeletable; nothing: ClaimGone",
		},
		{
			"T2.b unless a driver took over", given(pair(nil, aVolume(forClaim("u"), onHost, marked(names.AnnProvisionedBy, "kubernetes.io/gce-pd"))), isGone("u")),
			"SetMigration pd.csi.storage.gke.io; SetVolumePhase v Released as seen; nothing: ClaimGone",
		},

		{"T2.c no phase before the claim has chosen", pair(claim(ofClass("gold")), aVolume(forClaim("u"), phase(corev1.VolumePending), sized("1Mi"))), "wait: ClassMissing"},

		{"T2.d bound here", pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"), phase(corev1.VolumeAvailable))), "Complete volume v; nothing: ClaimBound"},
		{"T2.d released by another process: asked", pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"), phase(corev1.VolumeReleased))), "AskAPI claim"},
		{
			"T2.d the API server has the claim", given(pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"), phase(corev1.VolumeReleased))), claimAsked),
			"Complete volume v; nothing: ClaimBound",
		},

		{"T2.e made for the claim, which has another one", pair(elsewhere, other, aVolume(forClaim("u"), made)), "SetVolumePhase v Released as seen; nothing: ClaimBound"},
		{"T2.f chosen by us", pair(elsewhere, other, aVolume(forClaim("u"), marked(names.AnnBoundByController, "yes"))), "Unbind v for any claim; nothing: ClaimBound"},
		{"T2.f made for a former claim, and chosen by us (I3)", pair(elsewhere, other, aVolume(forClaim("u"), made, marked(names.AnnBoundByController, "yes"))), "Unbind v for any claim; nothing: ClaimBound"},
		{"T2.f older than the claim, for which it was reserved (I3)", pair(claim(wants("w"), isComplete, isBound, createdAt(2)), other, aVolume(forClaim("u"), made)), "Unbind v; nothing: ClaimBound"},
		{"T2.e made in the second of the claim", pair(claim(wants("w"), isComplete, isBound, createdAt(0)), other, aVolume(forClaim("u"), made)), "SetVolumePhase v Released as seen; nothing: ClaimBound"},
		{"T2.f made, but to be kept", pair(elsewhere, other, aVolume(forClaim("u"), made, policy(corev1.PersistentVolumeReclaimRetain))), "Unbind v; nothing: ClaimBound"},
	})
}

// C3: what is marked as our choice may be undone. A choice of a user's stays unmarked, on either
// side.
func TestMarks(t *testing.T) {
	ours := claimed(names.AnnBoundByController, "yes")
	decides(t, []row{
		{"C3 a mark is not made twice", given(pair(claim(ours)), offered(aVolume(isKept, marked(names.AnnBoundByController, "yes")))), "Reserve v; ClaimVolume v; Complete volume and claim of v; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
		{"C3 the scheduler marked the volume", pair(claim(), aVolume(forClaim("u"), marked(names.AnnBoundByController, "yes"))), "Complete volume and claim of v marked; SetClaimStatus Bound 1Gi; nothing: ClaimBound"},
	})
}

// 1.10, W4: what the status of a claim gets.
func TestBoundStatus(t *testing.T) {
	attributes := func(v *pv) { v.Spec.VolumeAttributesClassName = new("fast") }
	for _, tc := range []struct {
		name       string
		claim      *pvc
		volume     *pv
		capacity   string // "" for none
		attributes string
		write      bool
	}{
		{"pending", claim(), aVolume(attributes), "1Gi", "fast", true},
		{"the capacity of the volume, not of the request", claim(), aVolume(sized("5Gi")), "5Gi", "", true},
		{"8.67 a filesystem that has not grown yet", claim(), aVolume(sized("5Gi"), marked(names.AnnPreResizeCapacity, "2Gi")), "2Gi", "", true},
		{"what cannot be read does not count", claim(), aVolume(sized("5Gi"), marked(names.AnnPreResizeCapacity, "many")), "5Gi", "", true},
		{"a claim that was lost keeps its attributes class to the resizer", claim(inPhase(corev1.ClaimLost)), aVolume(attributes), "1Gi", "", true},
		{"bound: capacity and attributes are the resizer's", claim(isBound), aVolume(attributes, sized("5Gi")), "", "", false},
		{"bound: access modes follow", claim(isBound), aVolume(func(v *pv) { v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadOnlyMany) }), "", "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, write, err := boundStatus(tc.claim, tc.volume)
			if err != nil || write != tc.write {
				t.Fatalf("write %v, %v", write, err)
			}
			got := ""
			if q, ok := status.Capacity[corev1.ResourceStorage]; ok {
				got = q.String()
			}
			if got != tc.capacity || deref(status.Attributes) != tc.attributes || len(status.AccessModes) != len(tc.volume.Spec.AccessModes) {
				t.Errorf("got %s, %s, %v", got, deref(status.Attributes), status.AccessModes)
			}
		})
	}
	if _, _, err := boundStatus(claim(), aVolume(func(v *pv) { v.Spec.Capacity = nil })); err == nil || !strings.Contains(err.Error(), "capacity") {
		t.Errorf("a volume without a capacity: %v", err)
	}
}

// 1.4: the messages are contracts with upstream, which tools match.
func TestMessages(t *testing.T) {
	late := class("late", "d", waitsForPod)
	for _, tc := range []struct {
		s    Snapshot
		want string
	}{
		{pair(claim()), "no persistent volumes available for this claim and no storage class is set"},
		{pair(claim(wants("v")), aVolume(forOther)), `volume "v" already bound to a different claim.`},
		{pair(claim(wants("v")), aVolume(sized("1Mi"))), `Cannot bind to requested volume "v": requested PV is too small`},
		{pair(claim(wants("v")), aVolume(classed("x"))), `Cannot bind to requested volume "v": storageClassName does not match`},
		{pair(claim(wants("v")), aVolume(isRaw)), `Cannot bind to requested volume "v": incompatible volumeMode`},
		{pair(claim(wants("v")), aVolume(func(v *pv) { v.Spec.AccessModes = nil })), `Cannot bind to requested volume "v": incompatible accessMode`},
		{pair(claim(wants("v")), aVolume(func(v *pv) { v.Spec.VolumeAttributesClassName = new("x") })), `Cannot bind to requested volume "v": volumeAttributesClassName does not match`},
		{pair(claim(wants("v")), aVolume(goingVolume)), `Cannot bind to requested volume "v": the volume is marked for deletion "v"`},
		{given(pair(claim(ofClass("late"))), inClass(late)), "waiting for first consumer to be created before binding"},
		{given(pair(claim(ofClass("late"))), inClass(late), func(s *Snapshot) { s.Pods = []Consumer{{Pod: "p"}} }), "waiting for pod p to be scheduled"},
		{given(pair(claim(ofClass("late"))), inClass(late), func(s *Snapshot) { s.Pods = []Consumer{{Pod: "q"}, {Pod: "p"}} }), "waiting for pods p,q to be scheduled"},
		{pair(claim(ofClass("gold"))), `storageclass.storage.k8s.io "gold" not found`},
	} {
		if got := Decide(tc.s).Because().Text(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// 1.11: the newest, then by name.
func TestDefaultClass(t *testing.T) {
	classes := []*storagev1.StorageClass{
		class("plain", "d"), class("old", "d", isDefaultClass(1)), class("b", "d", isDefaultClass(2)), class("a", "d", isDefaultClass(2)),
		class("no", "d", isDefaultClass(3), func(c *storagev1.StorageClass) { c.Annotations[names.AnnDefaultStorageClass] = "yes" }),
	}
	if got := DefaultClass(classes); got == nil || got.Name != "a" {
		t.Errorf("got %v", got)
	}
	if got := DefaultClass(classes[:1]); got != nil {
		t.Errorf("got %v", got.Name)
	}
}

// 1.12, 1.13: migrated-to follows the provisioner that an object names.
func TestMigration(t *testing.T) {
	made := func(by string) func(*pv) { return marked(names.AnnProvisionedBy, by) }
	inTree := func(v *pv) { v.Finalizers = []string{"kubernetes.io/pv-protection", names.FinalizerInTree} }
	decides(t, []row{
		{"claim", pair(claim(ofClass("x"), claimed(names.AnnStorageProvisioner, "kubernetes.io/cinder"))), "SetMigration cinder.csi.openstack.org; wait: ClassMissing"},
		{"claim, old key", pair(claim(ofClass("x"), claimed(names.AnnBetaStorageProvisioner, "kubernetes.io/cinder"))), "SetMigration cinder.csi.openstack.org; wait: ClassMissing"},
		{"claim, not migrated", pair(claim(ofClass("x"), claimed(names.AnnStorageProvisioner, "d"), claimed(names.AnnMigratedTo, "e"))), "SetMigration; wait: ClassMissing"},
		{
			"volume", pair(claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"), phase(corev1.VolumeBound), marked(names.AnnProvisionedBy, "kubernetes.io/azure-file"))),
			"SetMigration file.csi.azure.com; nothing: ClaimBound",
		},
		{
			"volume, and the finalizer of the plugin",
			Snapshot{Key: Key{Volume: "v"}, Refs: []*pv{aVolume(made("kubernetes.io/azure-file"), marked(names.AnnMigratedTo, "file.csi.azure.com"), inTree)}},
			"SetMigration file.csi.azure.com without " + names.FinalizerInTree + "; nothing: VolumeAvailable",
		},
		{
			"volume of a plugin that is gone, kept",
			Snapshot{Key: Key{Volume: "v"}, Refs: []*pv{aVolume(made("kubernetes.io/host-path"), inTree, policy(corev1.PersistentVolumeReclaimRetain))}},
			"SetMigration without " + names.FinalizerInTree + "; nothing: VolumeAvailable",
		},
		{"the same, to be deleted by hand", Snapshot{Key: Key{Volume: "v"}, Refs: []*pv{aVolume(made("kubernetes.io/host-path"), inTree)}}, "nothing: VolumeAvailable"},
		{
			"a claim that is asked for anyway", given(pair(claim(ofClass("x"), claimed(names.AnnStorageProvisioner, "kubernetes.io/cinder"))), inClass(class("x", "kubernetes.io/cinder"))),
			"AskProvisioner cinder.csi.openstack.org; wait: ExternalProvisioning",
		},
	})
}

// A pair is at rest exactly when there is nothing to do for it.
func TestAtRest(t *testing.T) {
	bound := aVolume(forClaim("u"), phase(corev1.VolumeBound))
	for _, tc := range []struct {
		claim  *pvc
		volume *pv
	}{
		{claim(wants("v"), isComplete, isBound), bound},
		{claim(wants("v"), isBound), bound},
		{claim(wants("v"), isComplete), bound},
		{claim(isComplete, isBound), bound},
		{claim(wants("v"), isComplete, isBound), aVolume(forClaim("u"))},
		{claim(wants("v"), isComplete, isBound), aVolume(forClaim(""), phase(corev1.VolumeBound))},
		{claim(wants("v"), isComplete, isBound), aVolume(forOther, phase(corev1.VolumeBound))},
		{claim(wants("v"), isComplete, isBound, claimed(names.AnnStorageProvisioner, "kubernetes.io/cinder")), bound},
	} {
		want := show(Decide(given(pair(tc.claim, tc.volume), volumesAsked))) == "nothing: ClaimBound"
		if got := AtRest(tc.claim, tc.volume); got != want {
			t.Errorf("%v of %s", got, show(Decide(pair(tc.claim, tc.volume))))
		}
	}
}
