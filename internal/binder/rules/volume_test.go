package binding

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// T2, the volume's table: a free or reserved, b claim gone, c claim unbound, d bound here, e and f
// bound elsewhere.
func TestVolume(t *testing.T) {
	made := provisionedBy("d")

	elsewhere := boundClaim("w")
	other := aVolume(named("w"), claimRef("u"), volumeBound)
	decides(t, []row{
		{
			"T2.a new",
			alone(aVolume(volumePending)),
			steps(setsPhase("v", corev1.VolumeAvailable, ifUnchanged), ends(verdict.VolumeAvailable)),
		},
		{
			"T2.a scrubbed by an administrator",
			alone(aVolume(volumeReleased)),
			steps(setsPhase("v", corev1.VolumeAvailable, ifUnchanged), ends(verdict.VolumeAvailable)),
		},
		{
			"T2.a also after a failure",
			alone(aVolume(volumeFailed)),
			steps(setsPhase("v", corev1.VolumeAvailable, ifUnchanged), ends(verdict.VolumeAvailable)),
		},
		{"T2.a nothing to say", alone(aVolume()), ends(verdict.VolumeAvailable)},
		{"T2.a gone", Snapshot{Key: Key{Volume: "v"}}, ends(verdict.VolumeGone)},
		{
			"T2.a reserved for a claim that is not there",
			cluster(nil, aVolume(claimRef(""), volumePending)),
			steps(setsPhase("v", corev1.VolumeAvailable, ifUnchanged), ends(verdict.ClaimGone)),
		},
		{
			"T2.a reserved for a claim that has another one",
			cluster(elsewhere, other, aVolume(claimRef(""), volumePending)),
			steps(setsPhase("v", corev1.VolumeAvailable, ifUnchanged), ends(verdict.ClaimBound)),
		},

		{"T2.b asked before it is released (I3)", cluster(nil, boundVolume()), readsLive("claim")},
		{
			"T2.b its deletion was seen",
			cluster(nil, boundVolume()).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), ends(verdict.ClaimGone)),
		},
		{
			"T2.b that of another was: asked",
			cluster(nil, boundVolume()).with(sawDeletion("u0")),
			readsLive("claim"),
		},
		{
			"T2.b the API server has none",
			cluster(nil, boundVolume()).with(claimReadLive),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), ends(verdict.ClaimGone)),
		},
		{
			"T2.b another claim of the name: asked",
			cluster(claim(), aVolume(claimRef("old"), volumeBound)),
			readsLive("claim"),
		},
		{
			"T2.b the API server has another one",
			cluster(claim(), aVolume(claimRef("old"), volumeBound)).with(claimReadLive),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), waits(verdict.NoVolumeAndNoClass)),
		},
		{
			"T2.b released is not asked about again",
			cluster(nil, aVolume(claimRef("u"), volumeReleased)),
			ends(verdict.ClaimGone),
		},
		{
			"T2.b failed stays failed",
			cluster(nil, aVolume(claimRef("u"), volumeFailed)).with(sawDeletion("u")),
			ends(verdict.ClaimGone),
		},
		{
			"T2.b a claim that is going exists",
			cluster(boundClaim("v", claimTerminating), boundVolume()),
			ends(verdict.ClaimBound),
		},
		{
			"T2.b Retain",
			cluster(nil, aVolume(claimRef("u"), reclaimPolicy(corev1.PersistentVolumeReclaimRetain), hostPath)).
				with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased), emitsOnVolume(verdict.VolumeReleased), ends(verdict.ClaimGone)),
		},
		{
			"T2.b Recycle is not done (1.14)",
			cluster(nil, aVolume(claimRef("u"), reclaimPolicy(corev1.PersistentVolumeReclaimRecycle))).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeFailed), emitsOnVolume(verdict.VolumeNotRecycled), ends(verdict.ClaimGone)),
		},
		{
			"T2.b nor is a policy that does not exist",
			cluster(nil, aVolume(claimRef("u"), reclaimPolicy("Burn"))).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeFailed), emitsOnVolume(verdict.ReclaimPolicyUnknown), ends(verdict.ClaimGone)),
		},
		{
			"T2.b nor are volumes that no driver serves",
			cluster(nil, aVolume(claimRef("u"), hostPath)).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeFailed, ifUnchanged), emitsOnVolume(verdict.VolumeNotDeletable),
				ends(verdict.ClaimGone)),
		},
		{
			"T2.b a provisioner of such volumes deletes them",
			cluster(nil, aVolume(claimRef("u"), hostPath, made)).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), ends(verdict.ClaimGone)),
		},
		{
			"T2.b a plugin that was in the tree does not",
			cluster(nil, aVolume(claimRef("u"), hostPath, provisionedBy("kubernetes.io/host-path"))).with(sawDeletion("u")),
			steps(setsPhase("v", corev1.VolumeFailed, ifUnchanged), emitsOnVolume(verdict.VolumeNotDeletable),
				ends(verdict.ClaimGone)),
		},
		{
			"T2.b unless a driver took over",
			cluster(nil, aVolume(claimRef("u"), hostPath, provisionedBy("kubernetes.io/gce-pd"))).with(sawDeletion("u")),
			steps(setsMigratedTo("pd.csi.storage.gke.io"), setsPhase("v", corev1.VolumeReleased, ifUnchanged),
				ends(verdict.ClaimGone)),
		},

		{
			"T2.c no phase before the claim has chosen",
			cluster(claim(className("gold")), aVolume(claimRef("u"), volumePending, capacity("1Mi"))),
			waits(verdict.ClassMissing),
		},

		{
			"T2.d bound here",
			cluster(boundClaim("v"), aVolume(claimRef("u"), phase(corev1.VolumeAvailable))),
			steps(bindsVolume("v"), ends(verdict.ClaimBound)),
		},
		{
			"T2.d released by another process: asked",
			cluster(boundClaim("v"), aVolume(claimRef("u"), volumeReleased)),
			readsLive("claim"),
		},
		{
			"T2.d the API server has the claim",
			cluster(boundClaim("v"), aVolume(claimRef("u"), volumeReleased)).with(claimReadLive),
			steps(bindsVolume("v"), ends(verdict.ClaimBound)),
		},

		{
			"T2.e made for the claim, which has another one",
			cluster(elsewhere, other, aVolume(claimRef("u"), made)),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), ends(verdict.ClaimBound)),
		},
		{
			"T2.f chosen by us",
			cluster(elsewhere, other, aVolume(claimRef("u"), boundByUs)),
			steps(clearsClaimRef("v"), ends(verdict.ClaimBound)),
		},
		{
			"T2.f made for a former claim, and chosen by us (I3)",
			cluster(elsewhere, other, aVolume(claimRef("u"), made, boundByUs)),
			steps(clearsClaimRef("v"), ends(verdict.ClaimBound)),
		},
		{
			"T2.f older than the claim, for which it was reserved (I3)",
			cluster(boundClaim("w", createdAt(2)), other, aVolume(claimRef("u"), made)),
			steps(clearsClaimUID("v"), ends(verdict.ClaimBound)),
		},
		{
			"T2.e made in the second of the claim",
			cluster(boundClaim("w", createdAt(0)), other, aVolume(claimRef("u"), made)),
			steps(setsPhase("v", corev1.VolumeReleased, ifUnchanged), ends(verdict.ClaimBound)),
		},
		{
			"T2.f made, but to be kept",
			cluster(elsewhere, other, aVolume(claimRef("u"), made, reclaimPolicy(corev1.PersistentVolumeReclaimRetain))),
			steps(clearsClaimUID("v"), ends(verdict.ClaimBound)),
		},
	})
}
