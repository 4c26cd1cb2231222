package protection

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

var deletedAt = time.Unix(1_000_000, 0)

// shape writes a verdict as a table can have it.
func shape(v Verdict) string {
	switch v := v.(type) {
	case verdict.Read[Action]:
		return "read " + v.Refs[0].String()
	case nothing:
		return "nothing " + string(v.Reason)
	case wait:
		out := "wait " + string(v.Reason)
		if !v.Until.IsZero() {
			out += fmt.Sprint(" until ", v.Until.Sub(deletedAt))
		}
		return out
	case do:
		out := ""
		for _, a := range v.Actions {
			out += strings.TrimPrefix(fmt.Sprintf("%T ", a), "protection.")
		}
		return out + "then " + shape(v.Then)
	}
	return "nil"
}

func claim(edits ...func(*Claim)) Claim {
	s := Claim{Object: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "c", UID: "u", Finalizers: []string{"x", names.FinalizerPVCProtection}, DeletionTimestamp: &metav1.Time{Time: deletedAt},
	}}}
	for _, edit := range edits {
		edit(&s)
	}
	return s
}

func snapshotted(s *Claim)        { s.Snapshots = []string{"s"} }
func alive(s *Claim)              { s.Object.DeletionTimestamp = nil }
func unheld(s *Claim)             { s.Object.Finalizers = []string{"x"} }
func answered(s *Claim)           { s.Answer = &Answer{Version: "5"} }
func remembers(s *Claim)          { s.Pods = []corev1.Pod{*newer("p")} }
func answeredUsed(s *Claim)       { s.Answer = &Answer{Users: []string{"q", "p", "p"}, Version: "5"} }
func older(s *Claim)              { remembers(s); s.Pods[0].ResourceVersion = "4" }
func asked(d time.Duration) edit  { return func(s *Claim) { s.Asked = deletedAt.Add(d) } }
func at(d time.Duration) duration { return duration(d) }

type (
	edit     = func(*Claim)
	duration time.Duration
)

func TestDecideClaim(t *testing.T) {
	for _, tc := range []struct {
		row  string
		s    Claim
		at   duration
		want string
	}{
		{"gone", Claim{}, 0, "nothing ClaimGone"},
		{"3.1 C10 no finalizer: added", claim(alive, unheld), 0, "AddFinalizer then nothing ClaimProtected"},
		{"3.1 alive with finalizer", claim(alive), 0, "nothing ClaimProtected"},
		{"3.1 alive with finalizer, in use", claim(alive, remembers), 0, "nothing ClaimProtected"},
		{"3.1 deleting without it: not added again", claim(unheld), 0, "wait ClaimUnprotected until 1m0s"},
		{"8.26 told when others stay", claim(unheld), at(TellAfter), "wait ClaimBlockedByFinalizers until 32m0s"},
		{"8.26 the last is gone", claim(func(s *Claim) { s.Object.Finalizers = nil }), at(TellAfter), "nothing ClaimUnprotected"},
		{"8.30 75980 unused in memory is no proof", claim(), 0, "Ask then wait ClaimConfirming until 30s"},
		{"I10 unused at the API server", claim(answered), 0, "DropFinalizer then nothing ClaimUnprotected"},
		{"8.30 76703 used at the API server only", claim(answeredUsed), 0, "wait ClaimUsed until 30s"},
		{"8.30 used in memory by a pod newer than the answer", claim(answered, remembers), 0, "wait ClaimUsed until 30s"},
		{"8.30 a pod that is older than the answer and not in it is gone", claim(answered, older), 0, "DropFinalizer then nothing ClaimUnprotected"},
		{"3.1 a pod that names the claim and does not use it", claim(answered, func(s *Claim) {
			remembers(s)
			s.Pods[0].Spec.NodeName = ""
		}), 0, "DropFinalizer then nothing ClaimUnprotected"},
		{"FL-18 a snapshot is taken of it", claim(answered, snapshotted), 0, "wait ClaimUsed until 30s"},
		{"FL-18 told when it takes long", claim(snapshotted), at(time.Minute), "wait ClaimStillUsed until 1m30s"},
		{"3.1 used in memory: no question", claim(remembers), 0, "wait ClaimUsed until 1m0s"},
		{"8.29 told when it takes long", claim(remembers), at(time.Minute), "wait ClaimStillUsed until 10m0s"},
		{"8.28 memory is doubted in the end", claim(remembers), at(LookEvery), "Ask then wait ClaimConfirming until 10m30s"},
		{"8.28 not at once again", claim(remembers, asked(LookEvery)), at(LookEvery + time.Second), "wait ClaimStillUsed until 20m0s"},
		{"8.28 the pod is there", claim(answeredUsed, remembers, asked(LookEvery)), at(LookEvery), "wait ClaimStillUsed until 10m30s"},
		{"8.28 no answer: asked again", claim(asked(0)), at(AskAgain), "Ask then wait ClaimConfirming until 1m0s"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := shape(DecideClaim(tc.s, deletedAt.Add(time.Duration(tc.at)))); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
		})
	}
}

// 8.29: the event names the pods that use a claim, in a message of bounded length.
func TestHoldersAreNamed(t *testing.T) {
	s := claim(answeredUsed, func(s *Claim) { s.Pods = []corev1.Pod{*newer("r")} })
	if got := DecideClaim(s, deletedAt).Because().Message; !strings.HasSuffix(got, "in use by p, q, r") {
		t.Error(got)
	}
	s.Answer.Users = []string{"a", "b", "c", "d", "e", "f"}
	if got := DecideClaim(s, deletedAt).Because().Message; !strings.HasSuffix(got, "in use by a, b, c, d, e and 2 more") {
		t.Error(got)
	}
	if got := verdict.Describe(verdict.ClaimStillUsed); got.Severity != verdict.Normal {
		t.Errorf("%+v", got)
	}
}

// newer is a pod that uses the claim and is newer than each answer.
func newer(name string) *corev1.Pod {
	return pod(func(p *corev1.Pod) { p.Name, p.ResourceVersion = name, "9" })
}

func pod(edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "pod"},
		Spec: corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{
			{Name: "other"},
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
		}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func TestUses(t *testing.T) {
	plain := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	owned := func(by types.UID) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-data", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: "p", UID: by, Controller: new(true)},
		}}}
	}
	ephemeral := func(p *corev1.Pod) {
		p.Spec.Volumes[1].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	}
	noNode := func(p *corev1.Pod) { p.Spec.NodeName = "" }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	deleting := func(grace int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: deletedAt}, &grace
		}
	}
	for _, tc := range []struct {
		row   string
		pod   *corev1.Pod
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		{"3.1 scheduled", pod(), plain, true},
		{"3.1 not scheduled", pod(noNode), plain, false},
		{"another namespace", pod(func(p *corev1.Pod) { p.Namespace = "other" }), plain, false},
		{"another claim", pod(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}, false},
		{"3.1 succeeded, until the object is gone", pod(phase(corev1.PodSucceeded)), plain, true},
		{"3.1 failed, until the object is gone", pod(phase(corev1.PodFailed)), plain, true},
		{"3.1 shut down, until the object is gone", pod(deleting(0)), plain, true},
		{"3.1 ephemeral, its own", pod(ephemeral), owned("pod"), true},
		{"3.1 ephemeral, another pod's of the name", pod(ephemeral), owned("before"), false},
		{"3.1 ephemeral, not scheduled", pod(ephemeral, noNode), owned("pod"), false},
		{"3.1 ephemeral, finished", pod(ephemeral, phase(corev1.PodFailed)), owned("pod"), true},
		{"3.1 ephemeral, going", pod(ephemeral, deleting(30)), owned("pod"), true},
		{"3.1 ephemeral, shut down", pod(ephemeral, deleting(0)), owned("pod"), false},
		{"8.30 113139 ephemeral, by its derived name only", pod(ephemeral), plain, false},
	} {
		t.Run(tc.row, func(t *testing.T) {
			if got := Uses(tc.pod, tc.claim); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
