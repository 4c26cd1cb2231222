package resizing

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

const driver = "d"

var now = time.Unix(1000, 0)

func storage(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
}

// claim returns a claim that has 1Gi and requests a size; edits change it.
func claim(wants string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: "u"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv", Resources: corev1.VolumeResourceRequirements{Requests: storage(wants)}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage("1Gi")},
	}
	for _, edit := range edits {
		edit(c)
	}
	return c
}

func volume(capacity string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage(capacity), ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: "c", UID: "u"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
		},
	}
}

func in(state corev1.ClaimResourceStatus, allocated string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		if state != "" {
			setState(&c.Status, state)
		}
		if allocated != "" {
			setAllocated(&c.Status, resource.MustParse(allocated))
		}
	}
}

func with(kind corev1.PersistentVolumeClaimConditionType) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, newCondition(kind, "", metav1.NewTime(now)))
	}
}

// asked describes a verdict: the size of the call to the driver, with a + if the status is written
// first, or the kind of the verdict.
func asked(v Verdict) string {
	switch v := v.(type) {
	case do:
		text := ""
		for _, a := range v.Actions {
			switch a := a.(type) {
			case Begin:
				text = "+"
			case Expand:
				return text + a.Size.String()
			case ForgetOldSize:
				text = "forget "
			default:
			}
		}
		return text + fmt.Sprint(v.Then != nil)
	case wait:
		return "wait " + string(v.Reason)
	case refuse:
		return "refuse " + string(v.Reason)
	case verdict.Read[Action]:
		return "read " + v.Refs[0].String()
	}
	return "nothing"
}

// RZ-D1 to RZ-D14.
func TestDecide(t *testing.T) {
	const (
		inProgress     = corev1.PersistentVolumeClaimControllerResizeInProgress
		infeasibleHere = corev1.PersistentVolumeClaimControllerResizeInfeasible
		nodePending    = corev1.PersistentVolumeClaimNodeResizePending
		nodeBusy       = corev1.PersistentVolumeClaimNodeResizeInProgress
		nodeInfeasible = corev1.PersistentVolumeClaimNodeResizeInfeasible
		resizing       = corev1.PersistentVolumeClaimResizing
		failed         = corev1.PersistentVolumeClaimControllerResizeError
	)
	for row, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"gone":                                       {Snapshot{}, "nothing"},
		"RZ-Q5 the volume is not seen":               {Snapshot{Claim: claim("2Gi")}, "wait ResizeNotRequested"},
		"RZ-D2 has what it asks for":                 {Snapshot{Claim: claim("1Gi"), Volume: volume("1Gi")}, "nothing"},
		"RZ-D2 not bound":                            {Snapshot{Claim: claim("2Gi", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }), Volume: volume("1Gi")}, "nothing"},
		"on another node":                            {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), Elsewhere: true}, "nothing"},
		"RZ-D9 grows":                                {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi")}, "+2Gi"},
		"RZ-D9 infeasible before, asks for less":     {Snapshot{Claim: claim("2Gi", in(infeasibleHere, "9Gi")), Volume: volume("1Gi")}, "+2Gi"},
		"RZ-D8 uncertain, and asks for another size": {Snapshot{Claim: claim("2Gi", in(inProgress, "9Gi"), with(resizing)), Volume: volume("1Gi")}, "9Gi"},
		"RZ-D8 after a final error":                  {Snapshot{Claim: claim("2Gi", in(inProgress, "9Gi"), with(resizing), with(failed)), Volume: volume("1Gi")}, "+2Gi"},
		"RZ-D6 the node is to finish":                {Snapshot{Claim: claim("9Gi", in(nodePending, "2Gi")), Volume: volume("2Gi")}, "wait ResizeOnNode"},
		"RZ-D6 the volume is behind":                 {Snapshot{Claim: claim("9Gi", in(nodeBusy, "3Gi")), Volume: volume("2Gi")}, "+3Gi"},
		"RZ-D7 the node cannot":                      {Snapshot{Claim: claim("9Gi", in(nodeInfeasible, "3Gi")), Volume: volume("2Gi")}, "+3Gi"},
		"RZ-D10 the node is to finish":               {Snapshot{Claim: claim("2Gi", in(nodePending, "2Gi")), Volume: volume("2Gi")}, "wait ResizeOnNode"},
		"RZ-D11 the node cannot, here it can":        {Snapshot{Claim: claim("2Gi", in(nodeInfeasible, "3Gi")), Volume: volume("3Gi"), Driver: Driver{Controller: true}}, "+3Gi"},
		"RZ-D11 the node cannot, trivial":            {Snapshot{Claim: claim("2Gi", in(nodeInfeasible, "3Gi")), Volume: volume("3Gi")}, "+2Gi"},
		"RZ-D11a the record was lost":                {Snapshot{Claim: claim("2Gi", in(inProgress, "2Gi"), with(resizing)), Volume: volume("2Gi")}, "2Gi"},
		"RZ-D11b allocated before":                   {Snapshot{Claim: claim("2Gi", in("", "2Gi")), Volume: volume("2Gi")}, "+2Gi"},
		"RZ-D11c of an older API server":             {Snapshot{Claim: claim("2Gi"), Volume: volume("2Gi")}, "+2Gi"},
		"RZ-D11c which waits for the node":           {Snapshot{Claim: claim("2Gi", with(corev1.PersistentVolumeClaimFileSystemResizePending)), Volume: volume("2Gi")}, "wait ResizeOnNode"},
		"RZ-H9 a retry writes nothing":               {Snapshot{Claim: claim("2Gi", in(inProgress, "2Gi"), with(resizing)), Volume: volume("1Gi")}, "2Gi"},
		"RZ-D13 not due yet":                         {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), Retry: Retry{resource.MustParse("2Gi"), now.Add(time.Second)}}, "wait WaitForRetry"},
		"RZ-D13 due":                                 {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), Retry: Retry{resource.MustParse("2Gi"), now}}, "+2Gi"},
		"RZ-C5 another size at once":                 {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), Retry: Retry{resource.MustParse("9Gi"), now.Add(time.Hour)}}, "+2Gi"},
		"RZ-D12 offline only, in use":                {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), OfflineOnly: true, Users: []string{"p"}}, "refuse ResizeNeedsOffline"},
		"RZ-D12 offline by now, at once":             {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), OfflineOnly: true, Users: []string{}, Retry: Retry{resource.MustParse("2Gi"), now.Add(time.Hour)}}, "+2Gi"},
		"RZ-D12 the users are not read":              {Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), OfflineOnly: true}, "read users of the claim"},
		"RZ-D12 nothing to do, so they are not":      {Snapshot{Claim: claim("1Gi"), Volume: volume("1Gi"), OfflineOnly: true}, "nothing"},
	} {
		tc.s.Driver.Name = driver
		if got := asked(Decide(tc.s, now)); got != tc.want {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
}

func TestOthersAreLeftAlone(t *testing.T) {
	for row, edit := range map[string]func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume){
		"RZ-D3 another driver":      func(_ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" },
		"RZ-D3 an in-tree volume":   func(_ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) { pv.Spec.CSI = nil },
		"RZ-D4 another claim's uid": func(_ *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "x" },
	} {
		c, pv := claim("2Gi"), volume("1Gi")
		edit(c, pv)
		if got := asked(Decide(Snapshot{Claim: c, Volume: pv, Driver: Driver{Name: driver}}, now)); got != "nothing" {
			t.Errorf("%s: %s", row, got)
		}
	}
	c, pv := claim("2Gi"), volume("1Gi")
	c.Annotations, pv.Spec.CSI = map[string]string{names.AnnStorageResizer: driver}, nil
	if got := asked(Decide(Snapshot{Claim: c, Volume: pv, Driver: Driver{Name: driver}}, now)); got != "+2Gi" {
		t.Errorf("RZ-D3 a migrated volume: %s", got)
	}
}

// RZ-D1: the annotation is removed when the node has finished.
func TestForgetOldSize(t *testing.T) {
	pv := volume("1Gi")
	pv.Annotations = map[string]string{names.AnnPreResizeCapacity: "512Mi"}
	s := Snapshot{Claim: claim("1Gi"), Volume: pv, Driver: Driver{Name: driver}, AnnotateFS: true}
	if got := asked(Decide(s, now)); got != "forget true" {
		t.Errorf("%s", got)
	}
	s.AnnotateFS = false
	if got := asked(Decide(s, now)); got != "nothing" {
		t.Errorf("without the gate: %s", got)
	}
}

// RZ-X5 to RZ-X12, RZ-H3, RZ-C1 to RZ-C4.
func TestAfterExpand(t *testing.T) {
	s := Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), Driver: Driver{Name: driver}, AnnotateFS: true}
	two := resource.MustParse("2Gi")
	describe := func(v Verdict) string {
		switch v := v.(type) {
		case do:
			text := string(v.Reason)
			for _, a := range v.Actions {
				text += fmt.Sprintf(" %T", a)[len(" resizing"):]
				if r, ok := a.(RaiseVolume); ok {
					text += "(" + r.Capacity.String() + " " + r.OldSize + ")"
				}
				if f, ok := a.(Fail); ok {
					text += fmt.Sprintf("(%t)", f.Infeasible)
				}
			}
			return text
		case refuse:
			return "refuse " + string(v.Reason)
		}
		return fmt.Sprintf("%T", v)
	}
	for row, tc := range map[string]struct {
		answer Answer
		want   string
	}{
		"RZ-X7 done":                   {Answer{Capacity: two.Value()}, "ResizeDone.RaiseVolume(2Gi ).Finish"},
		"RZ-X6 the node goes on":       {Answer{Capacity: two.Value(), OnNode: true}, "ResizeNodeRequired.RaiseVolume(2Gi 1Gi).HandToNode"},
		"RZ-H3 more than asked for":    {Answer{Capacity: 2 * two.Value()}, "ResizeDone.RaiseVolume(4Gi ).Finish"},
		"RZ-H3 an answer of 0":         {Answer{}, "refuse ResizeFailed"},
		"RZ-H3 less than asked for":    {Answer{Capacity: two.Value() - 1}, "refuse ResizeFailed"},
		"RZ-C2 infeasible":             {Answer{Failure: &Failure{Code: codes.OutOfRange}}, "ResizeRefused.Fail(true)"},
		"RZ-C1 uncertain":              {Answer{Failure: &Failure{Code: codes.DeadlineExceeded}}, "refuse ResizeFailed"},
		"RZ-C1 exhausted is uncertain": {Answer{Failure: &Failure{Code: codes.ResourceExhausted}}, "refuse ResizeFailed"},
		"RZ-C4 final":                  {Answer{Failure: &Failure{Code: codes.Internal}}, "ResizeFailed.Fail(false)"},
		"RZ-C3 in use":                 {Answer{Failure: &Failure{Code: codes.FailedPrecondition}}, "ResizeFailed.Fail(false)"},
	} {
		if got := describe(AfterExpand(s, Expand{two, two.Value()}, tc.answer)); got != tc.want {
			t.Errorf("%s: %s, want %s", row, got, tc.want)
		}
	}
	refused := AfterExpand(s, Expand{two, two.Value()}, Answer{Failure: &Failure{Code: codes.OutOfRange}}).(do)
	if fix := refused.Then.Because().Fix; fix != "Ask for less, though for more than the present 1Gi, in spec.resources.requests.storage; that is tried at once" {
		t.Errorf("RZ-C2: what can be done: %s", fix)
	}
	for _, code := range []codes.Code{codes.NotFound, codes.FailedPrecondition, codes.PermissionDenied, codes.Unimplemented} {
		v := AfterExpand(s, Expand{two, two.Value()}, Answer{Failure: &Failure{Code: code}}).(do)
		if fix := v.Then.Because().Fix; fix != "" {
			t.Errorf("%s is not about the size, and the event says: %s", code, fix)
		}
	}
	// The run that removes the annotation of the expansion before (RZ-D1) adds that of the next one.
	waiting := s
	waiting.Claim, waiting.Volume = claim("3Gi", func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage("2Gi") }), volume("2Gi")
	waiting.Volume.Annotations = map[string]string{names.AnnPreResizeCapacity: "1Gi"}
	three := Answer{Capacity: 3 << 30, OnNode: true}
	if got := describe(AfterExpand(waiting, Expand{resource.MustParse("3Gi"), 3 << 30}, three)); got != "ResizeNodeRequired.RaiseVolume(3Gi 2Gi).HandToNode" {
		t.Errorf("RZ-X5 right after another expansion: %s", got)
	}
	waiting.Claim = claim("3Gi")
	if got := describe(AfterExpand(waiting, Expand{resource.MustParse("3Gi"), 3 << 30}, three)); got != "ResizeNodeRequired.RaiseVolume(3Gi ).HandToNode" {
		t.Errorf("RZ-X5 the node has not finished: %s", got)
	}
	if verdict.Describe(verdict.ResizeRefused).Event != "VolumeResizeFailed" {
		t.Error("RZ-E2: the event of a refused size has another reason than upstream's")
	}
}

// A size of 0 never reaches the driver, which takes it for its default or for no change. Only a capacity
// below 0 in the status makes it larger than what the claim has.
func TestSizeOfZero(t *testing.T) {
	c := claim("0")
	c.Status.Capacity = storage("-1Gi")
	s := Snapshot{Claim: c, Volume: volume("1Gi"), Driver: Driver{Name: driver, Controller: true}}
	if first, ok := Decide(s, now).(do); !ok || len(first.Actions) != 1 || first.Reason != verdict.ResizeSizeInvalid {
		t.Errorf("%+v", first)
	}
}

// RZ-X8: a size that an int64 does not hold never reaches the driver. The status becomes that of a
// refused size in one write, then nothing is written, and a size that can be had is tried at once.
func TestSizeBeyondAnInt64(t *testing.T) {
	c := claim("20E")
	s := Snapshot{Claim: c, Volume: volume("1Gi"), Driver: Driver{Name: driver, Controller: true}}
	first, ok := Decide(s, now).(do)
	if !ok || len(first.Actions) != 1 || first.Reason != verdict.ResizeSizeInvalid {
		t.Fatalf("%+v", first)
	}
	s.Claim = Apply(c, first.Actions[0], metav1.NewTime(now))
	if status(s.Claim) != corev1.PersistentVolumeClaimControllerResizeInfeasible ||
		!hasCondition(s.Claim, corev1.PersistentVolumeClaimControllerResizeError) {
		t.Fatalf("%+v", s.Claim.Status)
	}
	if got := asked(Decide(s, now)); got != "wait ResizeSizeInvalid" {
		t.Errorf("again: %s", got)
	}
	s.Claim.Spec.Resources.Requests = storage("2Gi")
	if got := asked(Decide(s, now)); got != "+2Gi" {
		t.Errorf("a legal size after that: %s", got)
	}
	for _, state := range []corev1.ClaimResourceStatus{
		corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimNodeResizePending,
	} { // recorded by a version that called the driver with 0 bytes
		s.Claim = claim("2Gi", in(state, "20E"), with(corev1.PersistentVolumeClaimResizing))
		if got := asked(Decide(s, now)); got != "+2Gi" {
			t.Errorf("a legal size after %s: %s", state, got)
		}
	}
}

// The digest of an attempt is the size that the driver gets, also while the next attempt is not due.
func TestAttempt(t *testing.T) {
	ours := Driver{Name: driver}
	due := Snapshot{Claim: claim("2Gi"), Volume: volume("1Gi"), Driver: ours}
	waits := due
	waits.Retry = Retry{resource.MustParse("2Gi"), now.Add(time.Hour)}
	foreign := due
	foreign.Driver.Name = "another"
	for name, tc := range map[string]struct {
		s    Snapshot
		want string
	}{
		"no claim": {Snapshot{}, ""}, "no volume": {Snapshot{Claim: claim("2Gi"), Driver: ours}, ""},
		"due": {due, "2Gi"}, "not due": {waits, "2Gi"}, "of another driver": {foreign, ""},
		"has it": {Snapshot{Claim: claim("1Gi"), Volume: volume("1Gi"), Driver: ours}, ""},
		"another size first": {Snapshot{
			Claim:  claim("2Gi", in(corev1.PersistentVolumeClaimControllerResizeInProgress, "9Gi")),
			Volume: volume("1Gi"), Driver: ours,
		}, "9Gi"},
	} {
		if got := Attempt(tc.s); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
