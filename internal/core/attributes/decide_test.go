package attributes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

const driver = "d"

var now = time.Unix(1000, 0)

func claim(named, current string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: "u"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	if named != "" {
		c.Spec.VolumeAttributesClassName = &named
	}
	if current != "" {
		c.Status.CurrentVolumeAttributesClassName = &current
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func began(target string) func(*corev1.PersistentVolumeClaim) { return applied(Begin{target}) }

func applied(a Action) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		changed, _ := Apply(c, a, metav1.NewTime(now))
		*c = *changed
	}
}

func failedWith(code codes.Code) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		applied(Fail{c.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName, Failure{Code: code, Message: "m"}})(c)
	}
}

func volume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "n", Name: "c", UID: "u"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
		},
	}
}

// around returns the snapshot in which every class but "missing" exists, and "foreign" belongs to
// another driver.
func around(c *corev1.PersistentVolumeClaim) Snapshot {
	s := Snapshot{Claim: c, Volume: volume(), Driver: Driver{Name: driver, Modifies: true}}
	switch name := Target(c); name {
	case "", "missing":
	case "foreign":
		s.Class = &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "other"}
	default:
		s.Class = &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, DriverName: driver}
	}
	return s
}

// text names the verdict: its actions, or its kind and reason.
func text(v Verdict) string {
	switch v := v.(type) {
	case do:
		var names []string
		for _, a := range v.Actions {
			names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", a), "attributes."))
		}
		return strings.Join(names, " ")
	case wait:
		return "wait " + string(v.Reason)
	case refuse:
		return "refuse " + string(v.Reason)
	}
	return "nothing"
}

// RZ-M1 to RZ-M7, RZ-M12, RZ-M14, RZ-H1, RZ-H4, RZ-H13.
func TestDecide(t *testing.T) {
	with := func(edit func(*Snapshot), c *corev1.PersistentVolumeClaim) Snapshot {
		s := around(c)
		edit(&s)
		return s
	}
	for name, tc := range map[string]struct {
		s      Snapshot
		target string
		want   string
	}{
		"no claim":          {Snapshot{}, "", "nothing"},
		"not bound":         {around(claim("a", "", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })), "a", "nothing"},
		"volume not cached": {with(func(s *Snapshot) { s.Volume = nil }, claim("a", "")), "a", "wait ModifyNotRequested"},
		"other driver":      {with(func(s *Snapshot) { s.Volume.Spec.CSI.Driver = "x" }, claim("a", "")), "a", "nothing"},
		"other claim":       {with(func(s *Snapshot) { s.Volume.Spec.ClaimRef.UID = "x" }, claim("a", "")), "a", "nothing"},
		"in-tree volume":    {with(func(s *Snapshot) { s.Volume.Spec.CSI = nil }, claim("a", "")), "a", "nothing"},
		"has it":            {around(claim("a", "a")), "", "nothing"},
		"none wanted":       {around(claim("", "")), "", "nothing"},
		"first class":       {around(claim("a", "")), "a", "Begin Modify"},
		"another class":     {around(claim("b", "a")), "b", "Begin Modify"},
		"class missing":     {around(claim("missing", "a")), "missing", "MarkPending"},
		"still missing":     {around(claim("missing", "a", applied(MarkPending{}))), "missing", "wait ModifyClassMissing"},
		"appeared":          {around(claim("b", "a", applied(MarkPending{}))), "b", "Begin Modify"},
		"foreign class":     {around(claim("foreign", "a")), "foreign", "wait ModifyClassNotOurs"},
		"driver lacks it":   {with(func(s *Snapshot) { s.Driver.Modifies = false }, claim("b", "a")), "b", "wait ModifyDriverLacks"},

		"killed after begin":            {around(claim("b", "a", began("b"))), "b", "Modify"},
		"killed, then named another":    {around(claim("c", "a", began("b"))), "b", "Modify"},
		"uncertain, named another":      {around(claim("c", "a", began("b"), failedWith(codes.DeadlineExceeded))), "b", "Modify"},
		"uncertain, back to current":    {around(claim("a", "a", began("b"), failedWith(codes.Unavailable))), "b", "Modify"},
		"uncertain, class deleted":      {around(claim("c", "a", began("missing"))), "missing", "wait ModifyClassMissing"},
		"final, same class":             {around(claim("b", "a", began("b"), failedWith(codes.Internal))), "b", "Begin Modify"},
		"final, named another":          {around(claim("c", "a", began("b"), failedWith(codes.Internal))), "c", "Begin Modify"},
		"final, back to current":        {around(claim("a", "a", began("b"), failedWith(codes.Internal))), "a", "Begin Modify"},
		"final, then begun, killed":     {around(claim("c", "a", began("b"), failedWith(codes.Internal), began("b"))), "b", "Modify"},
		"final, canceled":               {around(claim("", "", began("b"), failedWith(codes.Internal))), "b", "Begin Modify"},
		"infeasible, rolled back":       {around(claim("a", "a", began("b"), failedWith(codes.InvalidArgument))), "a", "Begin Modify"},
		"infeasible, canceled":          {around(claim("", "", began("b"), failedWith(codes.InvalidArgument))), "", "Cancel"},
		"infeasible, canceled, written": {around(claim("", "", began("b"), failedWith(codes.InvalidArgument), applied(Cancel{}))), "", "nothing"},

		"not due": {with(func(s *Snapshot) { s.Retry = Retry{"b/b", now.Add(1)} }, claim("b", "a")), "b", "wait ModifyAwaitsRetry"},
		"due":     {with(func(s *Snapshot) { s.Retry = Retry{"b/b", now} }, claim("b", "a")), "b", "Begin Modify"},
		"not due, but another class": {with(func(s *Snapshot) { s.Retry = Retry{"b/b", now.Add(1)} },
			claim("c", "a", began("b"), failedWith(codes.InvalidArgument))), "c", "Begin Modify"},
		"not due, but the class was created again": {with(func(s *Snapshot) { s.Retry = Retry{"b/old", now.Add(1)} }, claim("b", "a")), "b", "Begin Modify"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.s.Claim != nil {
				if target := Target(tc.s.Claim); target != tc.target {
					t.Errorf("target %q, want %q", target, tc.target)
				}
			}
			if got := text(Decide(tc.s, now)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// RZ-M10, RZ-M11, RZ-C1 to RZ-C4: the claim's status and the next action after each answer of the
// driver.
func TestAfterModify(t *testing.T) {
	for _, tc := range []struct {
		code    codes.Code
		status  corev1.PersistentVolumeClaimModifyVolumeStatus
		message string
		then    string
	}{
		{codes.InvalidArgument, "Infeasible", "failed. Waiting for retry.", "refuse ModifyRefused"},
		{codes.OutOfRange, "InProgress", "failed. Waiting for retry.", "refuse ModifyFailed"},
		{codes.NotFound, "InProgress", "failed. Waiting for retry.", "refuse ModifyFailed"},
		{codes.FailedPrecondition, "InProgress", "failed. Waiting for retry.", "refuse ModifyFailed"},
		{codes.Internal, "InProgress", "failed. Waiting for retry.", "refuse ModifyFailed"},
		{codes.Unimplemented, "InProgress", "failed. Waiting for retry.", "refuse ModifyFailed"},
		{codes.Canceled, "InProgress", "is still in progress.", "refuse ModifyFailed"},
		{codes.DeadlineExceeded, "InProgress", "is still in progress.", "refuse ModifyFailed"},
		{codes.Unavailable, "InProgress", "is still in progress.", "refuse ModifyFailed"},
		{codes.ResourceExhausted, "InProgress", "is still in progress.", "refuse ModifyFailed"},
		{codes.Aborted, "InProgress", "is still in progress.", "refuse ModifyFailed"},
	} {
		t.Run(tc.code.String(), func(t *testing.T) {
			c := claim("b", "a", began("b"))
			v, _ := AfterModify(around(c), &Failure{Code: tc.code, Message: "words"}).(do)
			if got := text(v.Then); got != tc.then {
				t.Errorf("then %s, want %s", got, tc.then)
			}
			applied(v.Actions[0])(c)
			modifying, failure := condition(c, "ModifyingVolume"), condition(c, "ModifyVolumeError")
			if c.Status.ModifyVolumeStatus.Status != tc.status || modifying.Message != `Modifying volume to "b" `+tc.message ||
				failure.Reason != tc.code.String() || failure.Message != "words" {
				t.Errorf("status %+v", c.Status)
			}
			again, _ := Apply(c, v.Actions[0], metav1.NewTime(now.Add(time.Hour)))
			if modifying := condition(again, "ModifyingVolume"); !modifying.LastProbeTime.Time.Equal(now) {
				t.Error("RZ-H9: the same failure again changes the status")
			}
		})
	}
	c := claim("b", "a", began("b"), failedWith(codes.Internal))
	v, _ := AfterModify(around(c), nil).(do)
	if text(v) != "SetVolumeClass Finish" || text(v.Then) != "nothing" {
		t.Errorf("RZ-M10: %s, then %s", text(v), text(v.Then))
	}
	applied(v.Actions[1])(c)
	if Concerns(c) || *c.Status.CurrentVolumeAttributesClassName != "b" || len(c.Status.Conditions) > 0 {
		t.Errorf("RZ-M10: status %+v", c.Status)
	}
	// Two leaders: the previous leader's result for its class does not change the status of the class
	// that the new leader has begun.
	for _, a := range []Action{Finish{"b"}, Fail{"b", Failure{Code: codes.InvalidArgument}}} {
		other := claim("c", "a", began("c"))
		if changed, _ := Apply(other, a, metav1.NewTime(now)); !equality.Semantic.DeepEqual(changed, other) {
			t.Errorf("%T of another class changes the status to %+v", a, changed.Status)
		}
	}
	// RZ-H14: a process that was killed between the two writes.
	s := around(claim("b", "a", began("b")))
	s.Volume.Spec.VolumeAttributesClassName = new("b")
	if v := AfterModify(s, nil); text(v) != "Finish" {
		t.Errorf("got %s, want Finish", text(v))
	}
	// A final answer for a class that the claim does not name any more: the claim's own is next,
	// without a delay.
	pinned, _ := AfterModify(around(claim("c", "a", began("b"))), &Failure{Code: codes.InvalidArgument}).(do)
	if w, ok := pinned.Then.(wait); !ok || w.Until.IsZero() || w.Until.After(now) {
		t.Errorf("then %v, want to go on at once", pinned.Then)
	}
}

// The driver's uncertain calls may take effect later, a user names classes at random, and the
// process is killed before any action. No class is sent to the driver while the outcome of another
// one is uncertain, and in the end the volume has the class of the claim.
func TestModifyConverges(t *testing.T) {
	classes := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		c, unknown, has := claim("a", ""), "", ""
		pv := volume()
		step := func(code codes.Code, crash int) {
			s := around(c)
			s.Volume = pv
			n := 0
			for v := Decide(s, now); ; {
				todo, ok := v.(do)
				if !ok {
					return
				}
				v = todo.Then
				for _, a := range todo.Actions {
					if n++; n == crash {
						return
					}
					if _, asks := a.(Modify); asks {
						asked := s.Class.Name
						if unknown != "" && unknown != asked {
							t.Fatalf("asked for %s while the outcome of %s is unknown", asked, unknown)
						}
						failure := &Failure{Code: code}
						switch {
						case code == codes.OK:
							has, unknown, failure = asked, "", nil
						case failure.IsFinal():
							unknown = ""
						default:
							unknown = asked
						}
						if n++; n == crash {
							if unknown == "" && code != codes.OK {
								unknown = asked // the answer was lost with the process
							}
							return
						}
						v = AfterModify(s, failure)
						break
					}
					if set, ok := a.(SetVolumeClass); ok {
						pv = pv.DeepCopy()
						pv.Spec.VolumeAttributesClassName = &set.Target
						continue
					}
					c, _ = Apply(c, a, metav1.NewTime(now))
				}
			}
		}
		answers := []codes.Code{codes.OK, codes.Internal, codes.InvalidArgument, codes.Unavailable, codes.DeadlineExceeded}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "edits") {
				c.Spec.VolumeAttributesClassName = new(rapid.SampledFrom(classes).Draw(t, "class"))
			}
			step(rapid.SampledFrom(answers).Draw(t, "answer"), rapid.IntRange(1, 9).Draw(t, "crash"))
		}
		for range 5 {
			step(codes.OK, 0)
		}
		if named := *c.Spec.VolumeAttributesClassName; Concerns(c) || has != named || deref(pv.Spec.VolumeAttributesClassName) != named {
			t.Fatalf("the claim names %s, the volume has %s: %+v", named, has, c.Status)
		}
	})
}
