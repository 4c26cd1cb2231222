package sim

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
)

func nothingYet(*user) {}

func delayed(u *user) {
	u.class(corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer)
}

func kept(u *user) { u.class(corev1.PersistentVolumeReclaimRetain, storagev1.VolumeBindingImmediate) }

// bindings are the workloads that test our binder and protection controllers. The provisioner is
// the model of another one, unless the processSet has ours, in the same or another process.
var bindings = playedBy(besideForeign, []workload{
	{name: "made for its claim", small: true, setup: immediate, writes: 4, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "made, released and deleted", small: true, setup: immediate, writes: 7, script: comeAndGo},
	{name: "made, released and kept", setup: kept, writes: 6, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoClaims()
	}},
	{name: "made, and the claim created again at once", small: true, contested: true, setup: immediate, script: createdAgain},
	{name: "made once a node is known", setup: delayed, script: func(u *user) {
		u.claim("a")
		u.pause(time.Second)
		u.selectNode("a")
		u.untilBound("a")
	}},
	{name: "made, and another volume comes first", setup: immediate, script: func(u *user) {
		u.claim("a")
		u.pause(3 * time.Millisecond)
		u.volume("v", holding("2Gi"))
		u.untilBound("a")
		u.pause(time.Second)
	}},
	{name: "class created later, as the default", setup: nothingYet, writes: 5, script: func(u *user) {
		u.claim("a", withoutClass)
		u.pause(time.Second)
		u.defaultClass()
		u.untilBound("a")
	}},
	{name: "chosen from what is there", small: true, setup: nothingYet, writes: 7, script: func(u *user) {
		for _, name := range []string{"v", "w", "x"} {
			u.volume(name, holding(map[string]string{"v": "5Gi", "w": "2Gi", "x": "1Mi"}[name]))
		}
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "chosen from what was made for others", small: true, setup: nothingYet, writes: 6, script: func(u *user) {
		u.volume("v", deletedWithClaim, madeBefore)
		u.volume("w", deletedWithClaim, madeBefore)
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "reserved, and made for others", small: true, setup: nothingYet, script: func(u *user) {
		u.volume("v", reserved("a"), deletedWithClaim, madeBefore)
		u.volume("w", deletedWithClaim, madeBefore)
		u.pause(2 * time.Second)
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "two claims for one volume, and then for another", small: true, setup: nothingYet, writes: 10, script: func(u *user) {
		u.claim("a")
		u.claim("b")
		u.pause(10 * time.Millisecond)
		u.volume("v")
		u.pause(time.Second)
		u.volume("w")
		u.untilBound("a", "b")
	}},
	{name: "two claims at once for two volumes", setup: nothingYet, writes: 10, script: func(u *user) {
		u.volume("v")
		u.volume("w")
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.claim("b")
		u.untilBound("a", "b")
	}},
	{name: "reserved for the claim", small: true, setup: nothingYet, script: func(u *user) {
		u.volume("v", reserved("a"))
		u.volume("w")
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "reserved after the claim came", setup: nothingYet, script: func(u *user) {
		u.claim("a")
		u.pause(10 * time.Millisecond)
		u.volume("v", reserved("a"))
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoClaims()
	}},
	{name: "named by its claim", setup: nothingYet, writes: 5, script: func(u *user) {
		u.volume("v")
		u.pause(10 * time.Millisecond)
		u.claim("a", naming("v"))
		u.untilBound("a")
	}},
	{name: "named by a claim that came before", setup: nothingYet, script: func(u *user) {
		u.claim("a", naming("v"))
		u.pause(10 * time.Millisecond)
		u.volume("v")
		u.untilBound("a")
	}},
	{name: "named by two claims", small: true, contested: true, setup: nothingYet, script: func(u *user) {
		u.claim("a", naming("v"))
		u.claim("b", naming("v"))
		u.pause(10 * time.Millisecond)
		u.volume("v")
		u.pause(time.Second)
		u.deleteClaim("a")
		u.deleteClaim("b")
		u.untilNoClaims()
	}},
	{name: "named by one, reserved for another", setup: nothingYet, script: func(u *user) {
		u.volume("v", reserved("a"))
		u.claim("b", naming("v"))
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "released, and given to the next", small: true, setup: nothingYet, script: func(u *user) {
		u.volume("v")
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilPhase("v", corev1.VolumeReleased)
		u.claim("b")
		u.giveBack()
		u.untilBound("b")
	}},
	{name: "released, and the claim created again at once", small: true, setup: nothingYet, script: func(u *user) {
		u.volume("v")
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoClaims()
		u.claim("a")
		u.pause(time.Second)
		u.giveBack()
		u.untilBound("a")
	}},
	{name: "kept for the next claim of the name", small: true, setup: immediate, script: func(u *user) {
		u.volume("v", deletedWithClaim, reusedBy(names.ReuseSameName))
		u.pause(10 * time.Millisecond)
		u.claim("a", naming("v"))
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoClaims()
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "offered to the next claim", small: true, setup: nothingYet, script: func(u *user) {
		u.volume("v", reusedBy(names.ReuseAny))
		u.claim("a")
		u.untilBound("a")
		u.claim("b")
		u.deleteClaim("a")
		u.untilBound("b")
	}},
	{name: "taken by the scheduler", setup: delayed, script: func(u *user) {
		u.volume("v")
		u.claim("a")
		u.pause(time.Second)
		u.place("a", "v")
		u.untilBound("a")
	}},
	{name: "deleted while a pod uses it", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.pod("p", "a")
		u.pause(300 * time.Microsecond)
		u.deleteClaim("a")
		u.deleteVolumes()
		u.pause(2 * time.Second)
		u.endPods()
		u.untilNoVolumes()
	}},
	{name: "volume deleted before it is taken", contested: true, setup: nothingYet, script: func(u *user) {
		u.volume("v")
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.atOnce()
		u.deleteVolumes()
		u.pause(time.Second)
		u.volume("v")
		u.untilBound("a")
	}},
	{name: "forced away, and restored", setup: nothingYet, writes: 8, script: func(u *user) {
		u.volume("v")
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.untilBound("a")
		u.forceAway("v")
		u.pause(time.Second)
		u.restore("v", "a")
		u.untilBound("a")
	}},
	{name: "bound, and its volume copied for a name without a claim", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.copyFor("a", "b")
		u.untilPhase("copy", corev1.VolumeReleased)
		u.touch("a")
		u.pause(time.Second)
	}},
	{name: "waiting, and a volume has its uid under another name", small: true, setup: nothingYet, script: func(u *user) {
		u.claim("a")
		u.copyFor("a", "b")
		u.untilPhase("copy", corev1.VolumeReleased)
		u.volume("v")
		u.untilBound("a")
	}},
	{name: "forced away for good", setup: nothingYet, writes: 6, script: func(u *user) {
		u.volume("v")
		u.pause(10 * time.Millisecond)
		u.claim("a")
		u.untilBound("a")
		u.forceAway("v")
		u.pause(time.Second)
	}},
	{name: "taken by the scheduler while it goes", contested: true, setup: delayed, script: func(u *user) {
		u.volume("v")
		u.claim("a")
		u.pause(time.Second)
		u.deleteVolumes()
		u.pause(1700 * time.Microsecond) // the write that lets it go is on its way
		u.place("a", "v")
		u.untilBound("a")
	}},
	{name: "together: come and go", small: true, processSet: together, setup: immediate, writes: 8, script: comeAndGo},
	{name: "together: once a node is known", processSet: together, setup: delayed, script: func(u *user) {
		u.claim("a")
		u.pause(time.Second)
		u.selectNode("a")
		u.untilBound("a")
	}},
	{name: "together: created again at once", contested: true, processSet: together, setup: immediate, script: createdAgain},
	{name: "together: another volume comes first", processSet: together, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.pause(3 * time.Millisecond)
		u.volume("v", holding("2Gi"))
		u.untilBound("a")
		u.pause(time.Second)
	}},
	{name: "together: released, and given to another claim by its uid", processSet: together, setup: immediate, script: givenByUID},
	{name: "together: released, given back, and taken by another claim", processSet: together, setup: immediate, script: givenBack},
	{name: "beside: released, and given to another claim by its uid", processSet: besideOurs, setup: immediate, script: givenByUID},
	{name: "beside: released, given back, and taken by another claim", processSet: besideOurs, setup: immediate, script: givenBack},
	{name: "beside: come and go", processSet: besideOurs, setup: immediate, script: comeAndGo},
})

func playedBy(c *processSet, works []workload) []workload {
	for i := range works {
		works[i].processSet = cmp.Or(works[i].processSet, c)
	}
	return works
}

func givenByUID(u *user) {
	u.untilReleasedAndHeld()
	u.claim("b", naming(u.volumeName()))
	u.give("b")
	u.goOn("b")
}

func givenBack(u *user) {
	u.untilReleasedAndHeld()
	u.claim("b", naming(u.volumeName()))
	u.pause(10 * time.Millisecond)
	u.giveBack()
	u.goOn("b")
}

func comeAndGo(u *user) {
	u.claim("a")
	u.untilBound("a")
	u.deleteClaim("a")
	u.untilNoVolumes()
}

func createdAgain(u *user) {
	u.claim("a")
	u.pause(5 * time.Millisecond)
	u.deleteClaim("a")
	u.untilNoClaims()
	u.claim("a")
	u.untilBound("a")
}
