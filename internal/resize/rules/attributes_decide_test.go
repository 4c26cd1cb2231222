package resizing

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

	"github.com/purser-csi/purser/internal/verdict"
)

const attributesDriver = "d"

var attributesNow = time.Unix(1000, 0)

func attributesClaim(named, current string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
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

func began(target string) func(*corev1.PersistentVolumeClaim) {
	return applied(AttributesBegin{target})
}

func applied(a AttributesAction) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		changed := AttributesApply(c, a, metav1.NewTime(attributesNow))
		*c = *changed
	}
}

// rejected is the status after the decision about the class "foreign", as upstream's after the driver
// has refused a class: the target is Infeasible, and both conditions are set (RZ-M11).
func rejected(c *corev1.PersistentVolumeClaim) {
	whole := c.DeepCopy()
	whole.Spec.VolumeAttributesClassName = new("foreign")
	applied(DecideAttributes(around(whole), attributesNow).(attributesDo).Actions[0])(whole)
	c.Status = whole.Status
}

// RZ-M11: the status fields of a refused class are a contract with upstream.
func TestStatusOfForeignClass(t *testing.T) {
	c := attributesClaim("foreign", "a", rejected)
	status, failed := c.Status.ModifyVolumeStatus, attributesCondition(c, corev1.PersistentVolumeClaimVolumeModifyVolumeError)
	if status == nil || status.Status != corev1.PersistentVolumeClaimModifyVolumeInfeasible ||
		status.TargetVolumeAttributesClassName != "foreign" || failed == nil || failed.Reason != "InvalidArgument" ||
		attributesCondition(c, corev1.PersistentVolumeClaimVolumeModifyingVolume) == nil {
		t.Errorf("%+v", c.Status)
	}
}

func failedWith(code codes.Code) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		applied(AttributesFail{c.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName, Failure{Code: code, Message: "m"}})(c)
	}
}

func attributesVolume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef:               &corev1.ObjectReference{Namespace: "n", Name: "c", UID: "u"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: attributesDriver, VolumeHandle: "h"}},
		},
	}
}

// around returns the snapshot in which every class but "missing" exists, and "foreign" belongs to
// another driver.
func around(c *corev1.PersistentVolumeClaim) AttributesSnapshot {
	s := AttributesSnapshot{Claim: c, Volume: attributesVolume(), Driver: AttributesDriver{Name: attributesDriver, Modifies: true}}
	s.ClassRead = Target(c)
	switch name := s.ClassRead; name {
	case "", "missing":
	case "foreign":
		s.Class = &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "other"}
	default:
		s.Class = &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, DriverName: attributesDriver}
	}
	return s
}

// text names the verdict: its actions, or its kind and reason.
func text(v AttributesVerdict) string {
	switch v := v.(type) {
	case attributesDo:
		var names []string
		for _, a := range v.Actions {
			names = append(names, strings.TrimPrefix(fmt.Sprintf("%T", a), "resizing."))
		}
		return strings.Join(names, " ")
	case attributesWait:
		return "wait " + string(v.Reason)
	case attributesRefuse:
		return "refuse " + string(v.Reason)
	case verdict.Read[AttributesAction]:
		return "read " + v.Refs[0].String()
	}
	return "nothing"
}

// RZ-M1 to RZ-M7, RZ-M12, RZ-M14, RZ-H1, RZ-H4, RZ-H13.
func TestDecideAttributes(t *testing.T) {
	with := func(edit func(*AttributesSnapshot), c *corev1.PersistentVolumeClaim) AttributesSnapshot {
		s := around(c)
		edit(&s)
		return s
	}
	for name, tc := range map[string]struct {
		s      AttributesSnapshot
		target string
		want   string
	}{
		"no claim":                      {AttributesSnapshot{}, "", "nothing"},
		"not bound":                     {around(attributesClaim("a", "", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending })), "a", "nothing"},
		"volume not cached":             {with(func(s *AttributesSnapshot) { s.Volume = nil }, attributesClaim("a", "")), "a", "wait ResizeNotRequested"},
		"on another node":               {with(func(s *AttributesSnapshot) { s.Elsewhere = true }, attributesClaim("a", "")), "a", "nothing"},
		"other driver":                  {with(func(s *AttributesSnapshot) { s.Volume.Spec.CSI.Driver = "x" }, attributesClaim("a", "")), "a", "nothing"},
		"other claim":                   {with(func(s *AttributesSnapshot) { s.Volume.Spec.ClaimRef.UID = "x" }, attributesClaim("a", "")), "a", "nothing"},
		"in-tree volume":                {with(func(s *AttributesSnapshot) { s.Volume.Spec.CSI = nil }, attributesClaim("a", "")), "a", "nothing"},
		"has it":                        {around(attributesClaim("a", "a")), "", "nothing"},
		"none wanted":                   {around(attributesClaim("", "")), "", "nothing"},
		"first class":                   {around(attributesClaim("a", "")), "a", "AttributesBegin Modify"},
		"another class":                 {around(attributesClaim("b", "a")), "b", "AttributesBegin Modify"},
		"class missing":                 {around(attributesClaim("missing", "a")), "missing", "MarkPending"},
		"still missing":                 {around(attributesClaim("missing", "a", applied(MarkPending{}))), "missing", "wait ModifyClassMissing"},
		"appeared":                      {around(attributesClaim("b", "a", applied(MarkPending{}))), "b", "AttributesBegin Modify"},
		"foreign class":                 {around(attributesClaim("foreign", "a")), "foreign", "AttributesReject"},
		"foreign class, written":        {around(attributesClaim("foreign", "a", rejected)), "foreign", "wait ModifyClassNotOurs"},
		"foreign class, then ours":      {around(attributesClaim("b", "a", rejected)), "b", "AttributesBegin Modify"},
		"foreign class, back":           {around(attributesClaim("a", "a", rejected)), "a", "AttributesBegin Modify"},
		"foreign class, canceled":       {around(attributesClaim("", "", rejected)), "", "Cancel"},
		"foreign class, begun upstream": {around(attributesClaim("b", "a", began("foreign"))), "foreign", "AttributesReject"},
		"class not read":                {with(func(s *AttributesSnapshot) { s.ClassRead, s.Class = "", nil }, attributesClaim("b", "a")), "b", "read VolumeAttributesClass/b"},
		"another class was read":        {with(func(s *AttributesSnapshot) { s.ClassRead = "a" }, attributesClaim("b", "a")), "b", "read VolumeAttributesClass/b"},
		"driver lacks it":               {with(func(s *AttributesSnapshot) { s.Driver.Modifies = false }, attributesClaim("b", "a")), "b", "wait ModifyDriverLacks"},

		"killed after begin":            {around(attributesClaim("b", "a", began("b"))), "b", "Modify"},
		"killed, then named another":    {around(attributesClaim("c", "a", began("b"))), "b", "Modify"},
		"uncertain, named another":      {around(attributesClaim("c", "a", began("b"), failedWith(codes.DeadlineExceeded))), "b", "Modify"},
		"uncertain, back to current":    {around(attributesClaim("a", "a", began("b"), failedWith(codes.Unavailable))), "b", "Modify"},
		"uncertain, class deleted":      {around(attributesClaim("c", "a", began("missing"))), "missing", "wait ModifyClassMissing"},
		"final, same class":             {around(attributesClaim("b", "a", began("b"), failedWith(codes.Internal))), "b", "AttributesBegin Modify"},
		"final, named another":          {around(attributesClaim("c", "a", began("b"), failedWith(codes.Internal))), "c", "AttributesBegin Modify"},
		"final, back to current":        {around(attributesClaim("a", "a", began("b"), failedWith(codes.Internal))), "a", "AttributesBegin Modify"},
		"final, then begun, killed":     {around(attributesClaim("c", "a", began("b"), failedWith(codes.Internal), began("b"))), "b", "Modify"},
		"final, canceled":               {around(attributesClaim("", "", began("b"), failedWith(codes.Internal))), "b", "AttributesBegin Modify"},
		"infeasible, rolled back":       {around(attributesClaim("a", "a", began("b"), failedWith(codes.InvalidArgument))), "a", "AttributesBegin Modify"},
		"infeasible, canceled":          {around(attributesClaim("", "", began("b"), failedWith(codes.InvalidArgument))), "", "Cancel"},
		"infeasible, canceled, written": {around(attributesClaim("", "", began("b"), failedWith(codes.InvalidArgument), applied(Cancel{}))), "", "nothing"},

		"not due": {with(func(s *AttributesSnapshot) { s.Retry = AttributesRetry{"b/b", attributesNow.Add(1)} }, attributesClaim("b", "a")), "b", "wait WaitForRetry"},
		"due":     {with(func(s *AttributesSnapshot) { s.Retry = AttributesRetry{"b/b", attributesNow} }, attributesClaim("b", "a")), "b", "AttributesBegin Modify"},
		"not due, but another class": {with(func(s *AttributesSnapshot) { s.Retry = AttributesRetry{"b/b", attributesNow.Add(1)} },
			attributesClaim("c", "a", began("b"), failedWith(codes.InvalidArgument))), "c", "AttributesBegin Modify"},
		"not due, but the class was created again": {with(func(s *AttributesSnapshot) { s.Retry = AttributesRetry{"b/old", attributesNow.Add(1)} }, attributesClaim("b", "a")), "b", "AttributesBegin Modify"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.s.Claim != nil {
				if target := Target(tc.s.Claim); target != tc.target {
					t.Errorf("target %q, want %q", target, tc.target)
				}
			}
			if got := text(DecideAttributes(tc.s, attributesNow)); got != tc.want {
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
			c := attributesClaim("b", "a", began("b"))
			v, _ := AfterModify(around(c), ModifyAnswer{Failure: &Failure{Code: tc.code, Message: "words"}}).(attributesDo)
			if got := text(v.Then); got != tc.then {
				t.Errorf("then %s, want %s", got, tc.then)
			}
			applied(v.Actions[0])(c)
			modifying, failure := attributesCondition(c, "ModifyingVolume"), attributesCondition(c, "ModifyVolumeError")
			if c.Status.ModifyVolumeStatus.Status != tc.status || modifying.Message != `Modifying volume to "b" `+tc.message ||
				failure.Reason != tc.code.String() || failure.Message != "words" {
				t.Errorf("status %+v", c.Status)
			}
			again := AttributesApply(c, v.Actions[0], metav1.NewTime(attributesNow.Add(time.Hour)))
			if modifying := attributesCondition(again, "ModifyingVolume"); !modifying.LastProbeTime.Time.Equal(attributesNow) {
				t.Error("RZ-H9: the same failure again changes the status")
			}
		})
	}
	for _, code := range []codes.Code{codes.InvalidArgument, codes.OutOfRange} {
		v, _ := AfterModify(around(attributesClaim("b", "a", began("b"))), ModifyAnswer{Failure: &Failure{Code: code}}).(attributesDo)
		if fix := v.Then.Because().Fix; !strings.HasPrefix(fix, `Name another class in spec.volumeAttributesClassName, or "a" as before`) {
			t.Errorf("%s: what can be done: %s", code, fix)
		}
		v, _ = AfterModify(around(attributesClaim("b", "", began("b"))), ModifyAnswer{Failure: &Failure{Code: code}}).(attributesDo)
		if fix := v.Then.Because().Fix; !strings.HasPrefix(fix, "Name another class in spec.volumeAttributesClassName, or none, as before") {
			t.Errorf("%s: what can be done: %s", code, fix)
		}
	}
	c := attributesClaim("b", "a", began("b"), failedWith(codes.Internal))
	v, _ := AfterModify(around(c), ModifyAnswer{}).(attributesDo)
	if text(v) != "SetVolumeClass AttributesFinish" || text(v.Then) != "nothing" {
		t.Errorf("RZ-M10: %s, then %s", text(v), text(v.Then))
	}
	applied(v.Actions[1])(c)
	if AttributesConcerns(c) || *c.Status.CurrentVolumeAttributesClassName != "b" || len(c.Status.Conditions) > 0 {
		t.Errorf("RZ-M10: status %+v", c.Status)
	}
	// Two leaders: the previous leader's result for its class does not change the status of the class
	// that the new leader has begun.
	for _, a := range []AttributesAction{AttributesFinish{"b"}, AttributesFail{"b", Failure{Code: codes.InvalidArgument}}} {
		other := attributesClaim("c", "a", began("c"))
		if changed := AttributesApply(other, a, metav1.NewTime(attributesNow)); !equality.Semantic.DeepEqual(changed, other) {
			t.Errorf("%T of another class changes the status to %+v", a, changed.Status)
		}
	}
	// RZ-H14: a process that was killed between the two writes.
	s := around(attributesClaim("b", "a", began("b")))
	s.Volume.Spec.VolumeAttributesClassName = new("b")
	if v := AfterModify(s, ModifyAnswer{}); text(v) != "AttributesFinish" {
		t.Errorf("got %s, want AttributesFinish", text(v))
	}
	// A final answer for a class that the claim does not name any more: the claim's own is next,
	// without a delay.
	pinned, _ := AfterModify(around(attributesClaim("c", "a", began("b"))), ModifyAnswer{Failure: &Failure{Code: codes.InvalidArgument}}).(attributesDo)
	if w, ok := pinned.Then.(attributesWait); !ok || w.Until.IsZero() || w.Until.After(attributesNow) {
		t.Errorf("then %v, want to go on at once", pinned.Then)
	}
}

// The driver's uncertain calls may take effect later, a user names classes at random, and the
// process is killed before any action. No class is sent to the driver while the outcome of another
// one is uncertain, and in the end the volume has the class of the claim.
func TestModifyConverges(t *testing.T) {
	classes := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		c, unknown, has := attributesClaim("a", ""), "", ""
		pv := attributesVolume()
		step := func(code codes.Code, crash int) {
			s := around(c)
			s.Volume = pv
			n := 0
			for v := DecideAttributes(s, attributesNow); ; {
				todo, ok := v.(attributesDo)
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
						v = AfterModify(s, ModifyAnswer{Failure: failure})
						break
					}
					if set, ok := a.(SetVolumeClass); ok {
						pv = pv.DeepCopy()
						pv.Spec.VolumeAttributesClassName = &set.Target
						continue
					}
					c = AttributesApply(c, a, metav1.NewTime(attributesNow))
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
		if named := *c.Spec.VolumeAttributesClassName; AttributesConcerns(c) || has != named || deref(pv.Spec.VolumeAttributesClassName) != named {
			t.Fatalf("the claim names %s, the volume has %s: %+v", named, has, c.Status)
		}
	})
}
