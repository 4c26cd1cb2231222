package binding

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// T1, the claim's table. Its rows are numbered in their order.
func TestClaim(t *testing.T) {
	gold, late := class("gold", "d"), class("late", "d", waitsForPod)
	onNode := claimAnnotation(names.AnnSelectedNode, "n1")
	decides(t, []row{
		{
			"T1.1 a volume with the claim's uid is for it, as a provisioner writes it",
			cluster(claim(className("gold")), aVolume(claimRef("u"), volumePending)),
			steps(bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 a volume with the claim's name gets its uid",
			cluster(claim(), aVolume(claimRef(""), retained)),
			steps(setsClaimRef("v"), bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 of a reserved volume neither class nor phase matters",
			cluster(claim(className("a")), aVolume(claimRef("u"), volumeClass("b"), volumePending)),
			steps(bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 nor that the class waits for a pod",
			cluster(claim(className("late")), boundVolume()).with(storageClass(late)),
			steps(bindsClaim("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 the uid counts for more than the name",
			cluster(claim(), aVolume(named("a"), claimRef(""), volumePending), aVolume(claimRef("u"), capacity("5Gi"))),
			steps(bindsBoth("v", ours), setsClaimBound("5Gi"), setsPhase("a", corev1.VolumeAvailable, ifUnchanged),
				ends(verdict.ClaimBound)),
		},
		{
			"T1.1 then the size, then the name",
			cluster(claim(), aVolume(named("z"), claimRef("")), aVolume(named("a"), claimRef(""), retained),
				aVolume(named("b"), claimRef(""), capacity("2Gi"))),
			steps(setsClaimRef("a"), bindsBoth("a", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 a reserved volume that is too small is none",
			cluster(claim(), aVolume(claimRef(""), capacity("1Mi"))),
			waits(verdict.NoVolumeAndNoClass),
		},
		{
			"T1.1 nor one that is going",
			cluster(claim(), aVolume(claimRef(""), volumeTerminating)),
			waits(verdict.NoVolumeAndNoClass),
		},
		{
			"T1.1 but one that the claim has been given is kept for it",
			cluster(claim(), aVolume(claimRef("u"), volumeTerminating)),
			steps(bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 if there is none that stays",
			cluster(claim(), aVolume(named("a"), claimRef("u"), volumeTerminating), aVolume(named("b"), claimRef("u"))),
			steps(bindsBoth("b", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.1 nor one for a former claim of the name",
			cluster(claim(), aVolume(claimRef("old"), volumeReleased)).with(sawDeletion("old")),
			waits(verdict.NoVolumeAndNoClass),
		},
		{
			"T1.1 nor one of the other volume mode, which is said",
			cluster(claim(), aVolume(claimRef("u"), blockMode)),
			steps(emitsOnVolume(verdict.VolumeUnfit), emitsOnClaim(verdict.VolumeUnfit), waits(verdict.NoVolumeAndNoClass)),
		},

		{
			"T1.2 the best volume that is there",
			cluster(claim()).with(freeVolume(aVolume(retained))),
			steps(reserves("v"), setsClaimRef("v", ours), bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"I3 T1.2 one that is deleted with its claim: asked whether that is there",
			cluster(claim()).with(freeVolume(aVolume())),
			readsLive("claim"),
		},
		{
			"I3 T1.2 and then bound",
			cluster(claim()).with(freeVolume(aVolume()), claimReadLive),
			steps(reserves("v"), setsClaimRef("v", ours), bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.2 before the default class",
			cluster(claim(noClassName)).with(freeVolume(aVolume(retained)), defaultClass(gold)),
			steps(reserves("v"), setsClaimRef("v", ours), bindsBoth("v", ours), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.2 the default class",
			cluster(claim(noClassName)).with(defaultClass(gold)),
			steps(setsClassName("gold"), waits(verdict.ClassAwaited)),
		},
		{
			"T1.2 an empty class is a choice",
			cluster(claim()).with(defaultClass(gold)),
			waits(verdict.NoVolumeAndNoClass),
		},
		{
			"T1.2 the old annotation is a choice, too",
			cluster(claim(noClassName, claimAnnotation(names.AnnBetaStorageClass, ""))).with(defaultClass(gold)),
			waits(verdict.NoVolumeAndNoClass),
		},
		{
			"T1.2 no class and no default",
			cluster(claim(noClassName)),
			waits(verdict.NoVolumeAndNoClass),
		},
		{
			"T1.2 a provisioner is asked",
			cluster(claim(className("gold"))).with(storageClass(gold)),
			steps(setsProvisioner("d"), waits(verdict.ExternalProvisioning)),
		},
		{
			"T1.2 once",
			cluster(claim(className("gold"), provisioner("d"))).with(storageClass(gold)),
			waits(verdict.ExternalProvisioning),
		},
		{
			"T1.2 and again when the class has another one",
			cluster(claim(className("gold"), provisioner("e"))).with(storageClass(gold)),
			steps(setsProvisioner("d"), waits(verdict.ExternalProvisioning)),
		},
		{
			"T1.2 the one in this process is given the claim",
			cluster(claim(className("gold"))).with(storageClass(gold), provisionerInProcess),
			steps(handsOver("d"), waits(verdict.HandedOver)),
		},
		{
			"T1.2 for a plugin that was in the tree, the driver that took over",
			cluster(claim(className("old"))).with(storageClass(class("old", "kubernetes.io/aws-ebs"))),
			steps(setsProvisioner("ebs.csi.aws.com"), waits(verdict.ExternalProvisioning)),
		},
		{
			"T1.2 a class that is missing",
			cluster(claim(className("gold"))),
			waits(verdict.ClassMissing),
		},
		{
			"T1.2 a class without a provisioner",
			cluster(claim(className("local"))).with(storageClass(class("local", "kubernetes.io/no-provisioner"))),
			waits(verdict.ProvisionerUnknown),
		},
		{
			"T1.2 a class that waits for a pod takes no volume without a claimRef",
			cluster(claim(className("late"))).with(storageClass(late), freeVolume(aVolume())),
			waits(verdict.WaitForFirstConsumer),
		},
		{
			"T1.2 pods are named",
			cluster(claim(className("late"))).with(storageClass(late), pods("b", "a")),
			waits(verdict.WaitForPodScheduled),
		},
		{
			"T1.2 a node was picked",
			cluster(claim(className("late"), onNode)).with(storageClass(late), freeVolume(aVolume())),
			steps(setsProvisioner("d"), waits(verdict.ExternalProvisioning)),
		},
		{
			"T1.2 no volume for a terminating claim",
			cluster(claim(className("gold"), claimTerminating)).with(storageClass(gold), freeVolume(aVolume())),
			waits(verdict.ClaimDeleting),
		},
		{
			"T1.2 a status that says too much is taken back",
			cluster(claim(statusBound)),
			steps(setsClaimPending(), waits(verdict.NoVolumeAndNoClass)),
		},

		{
			"T1.3 the reference is lost",
			cluster(claim(bindCompleted, statusBound)),
			steps(setsClaimLost(), waits(verdict.ClaimLost)),
		},
		{
			"T1.3 the annotation is a user's: what it is",
			cluster(claim(bindCompleted)),
			steps(setsClaimLost(), waits(verdict.ClaimLost)),
		},
		{
			"T1.3 without the annotation it is provisioned",
			cluster(claim(statusLost, className("gold"), provisioner("d"))).with(storageClass(gold)),
			steps(setsClaimPending(), waits(verdict.ClaimPending)),
		},
		{"T1.3 once", cluster(claim(bindCompleted, statusLost)), waits(verdict.ClaimStaysLost)},

		{
			"T1.4 the volume that was chosen does not exist",
			cluster(claim(namesVolume("v"))),
			waits(verdict.VolumeAwaited),
		},
		{
			"T1.4 and the status says nothing else",
			cluster(claim(namesVolume("v"), statusLost)),
			steps(setsClaimPending(), waits(verdict.VolumeAwaited)),
		},

		{
			"I3 T1.5 the volume that was chosen is deleted with its claim",
			cluster(claim(namesVolume("v")), aVolume()),
			readsLive("claim"),
		},
		{
			"T1.5 the volume that was chosen is free",
			cluster(claim(namesVolume("v")), aVolume(retained)),
			steps(setsClaimRef("v", ours), bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.5 and too small",
			cluster(claim(namesVolume("v")), aVolume(capacity("1Mi"))),
			waits(verdict.VolumeUnfit),
		},
		{
			"T1.5 of another class",
			cluster(claim(namesVolume("v")), aVolume(volumeClass("gold"))),
			waits(verdict.VolumeUnfit),
		},
		{
			"T1.5 raw",
			cluster(claim(namesVolume("v")), aVolume(blockMode)),
			waits(verdict.VolumeUnfit),
		},
		{
			"T1.5 going",
			cluster(claim(namesVolume("v")), aVolume(volumeTerminating)),
			waits(verdict.VolumeUnfit),
		},
		{
			"1.7 T1.5 no volume for a terminating claim, with which it might be deleted",
			cluster(claim(namesVolume("v"), claimTerminating), aVolume()),
			waits(verdict.ClaimDeleting),
		},
		{
			"1.7 T1.5 unless one names it",
			cluster(claim(namesVolume("v"), claimTerminating), aVolume(claimRef(""), retained)),
			steps(setsClaimRef("v"), bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"1.8 T1.9 or was bound to it",
			cluster(boundClaim("v", claimTerminating), aVolume(retained)),
			steps(setsClaimRef("v", ours), bindsVolume("v"), ends(verdict.ClaimBound)),
		},

		{
			"I3 T1.6 both chose each other, and it is deleted with its claim",
			cluster(claim(namesVolume("v")), aVolume(claimRef(""))),
			readsLive("claim"),
		},
		{
			"T1.6 both chose each other by name",
			cluster(claim(namesVolume("v")), aVolume(claimRef(""), retained)),
			steps(setsClaimRef("v"), bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.6 and by uid",
			cluster(claim(namesVolume("v")), aVolume(claimRef("u"))),
			steps(bindsBoth("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.6 whether or not they fit",
			cluster(claim(namesVolume("v")), aVolume(claimRef("u"), capacity("1Mi"))),
			steps(bindsBoth("v"), setsClaimBound("1Mi"), ends(verdict.ClaimBound)),
		},

		{
			"T1.7 the volume is for another claim",
			cluster(claim(namesVolume("v")), aVolume(claimRefToOther)),
			waits(verdict.VolumeTaken),
		},
		{
			"T1.7 or for a former one of the name",
			cluster(claim(namesVolume("v")), aVolume(claimRef("old"))).with(sawDeletion("old")),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), waits(verdict.VolumeTaken)),
		},

		{
			"T1.8 the volume is gone: asked before it is said",
			cluster(boundClaim("v")),
			readsLive("volume"),
		},
		{
			"T1.8 and then said",
			cluster(boundClaim("v")).with(volumesReadLive),
			steps(setsClaimLost(), waits(verdict.ClaimLost)),
		},
		{
			"T1.8 once",
			cluster(claim(namesVolume("v"), bindCompleted, statusLost)),
			waits(verdict.ClaimStaysLost),
		},

		{
			"I3 T1.9 repair with what is deleted with its claim",
			cluster(boundClaim("v"), aVolume()),
			readsLive("claim"),
		},
		{
			"T1.9 repair",
			cluster(boundClaim("v"), aVolume(retained)),
			steps(setsClaimRef("v", ours), bindsVolume("v"), ends(verdict.ClaimBound)),
		},

		{
			"T1.9 the annotation alone: too small",
			cluster(claim(namesVolume("v"), bindCompleted), aVolume(retained, capacity("1Mi"))),
			waits(verdict.VolumeUnfit),
		},
		{
			"T1.9 the annotation alone: of another class",
			cluster(claim(namesVolume("v"), bindCompleted), aVolume(retained, volumeClass("gold"))),
			waits(verdict.VolumeUnfit),
		},
		{
			"T1.9 nor after it became Lost without a name",
			cluster(claim(namesVolume("v"), bindCompleted, statusLost), aVolume(retained, capacity("1Mi"))),
			steps(setsClaimPending(), waits(verdict.VolumeUnfit)),
		},
		{
			"T1.9 the annotation alone: no volume for a terminating claim",
			cluster(claim(namesVolume("v"), bindCompleted, claimTerminating), aVolume(retained)),
			waits(verdict.ClaimDeleting),
		},
		{
			"T1.9 the annotation alone: fits",
			cluster(claim(namesVolume("v"), bindCompleted), aVolume(retained)),
			steps(setsClaimRef("v", ours), bindsVolume("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.9 was bound: the size matters no more",
			cluster(boundClaim("v"), aVolume(retained, capacity("1Mi"))),
			steps(setsClaimRef("v", ours), bindsVolume("v"), ends(verdict.ClaimBound)),
		},

		{"T1.10 all is well", cluster(boundClaim("v"), boundVolume()), ends(verdict.ClaimBound)},
		{
			"T1.10 W2 is missing",
			cluster(boundClaim("v"), aVolume(claimRef("u"))),
			steps(bindsVolume("v"), ends(verdict.ClaimBound)),
		},
		{
			"T1.10 W4 is missing",
			cluster(claim(namesVolume("v"), bindCompleted), boundVolume()),
			steps(setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},
		{
			"T1.10 a lost claim whose volume is back: asked",
			cluster(claim(namesVolume("v"), bindCompleted, statusLost), aVolume(claimRef("u"))),
			readsLive("volume"),
		},
		{
			"T1.10 the API server has it",
			cluster(claim(namesVolume("v"), bindCompleted, statusLost), aVolume(claimRef("u"))).with(volumesReadLive),
			steps(bindsVolume("v"), setsClaimBound("1Gi"), ends(verdict.ClaimBound)),
		},

		{
			"T1.11 the volume is another's: asked before it is said",
			cluster(boundClaim("v"), aVolume(claimRefToOther)),
			readsLive("volume"),
		},
		{
			"T1.11 and then said",
			cluster(boundClaim("v"), aVolume(claimRefToOther)).with(volumesReadLive),
			steps(setsClaimLost(), waits(verdict.ClaimMisbound)),
		},
		{
			"T1.11 asked in two steps",
			cluster(boundClaim("v"), aVolume(claimRef("old"), retained)).with(claimReadLive),
			readsLive("claim", "volume"),
		},
		{
			"T1.11 and both answers are kept",
			cluster(boundClaim("v"), aVolume(claimRef("old"), retained)).with(claimReadLive, volumesReadLive),
			steps(setsClaimLost(), setsPhase("v", corev1.VolumeReleased), emitsOnVolume(verdict.VolumeReleased),
				waits(verdict.ClaimMisbound)),
		},
		{
			"T1.11 without a uid it is free",
			cluster(boundClaim("v"), aVolume(claimRef(""))).with(volumesReadLive),
			steps(setsClaimLost(), waits(verdict.ClaimMisbound)),
		},
	})
}
