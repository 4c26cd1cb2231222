package daytwo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
)

// SchemaCheck names the form of `check -o json`.
const SchemaCheck = "purser.check/v1"

// Outcome is how a step of a check ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	Planned Outcome = "planned" // by a dry run
)

// The steps of a check, in their order.
const (
	StepCreate   = "create a claim"
	StepMount    = "mount it in a pod"
	StepWrite    = "write and read back"
	StepGrow     = "expand it"
	StepSnapshot = "take a snapshot"
	StepRestore  = "restore the snapshot"
	StepClone    = "clone the claim"
	StepDelete   = "delete everything"
)

// CheckStep is one step with its outcome.
type CheckStep struct {
	Step    string  `json:"step"`
	Outcome Outcome `json:"outcome"`
	Seconds float64 `json:"seconds"`
	Text    string  `json:"text,omitempty"`
}

// CheckReport is the answer of check.
type CheckReport struct {
	Schema    string      `json:"schema"`
	Time      time.Time   `json:"time"`
	Class     string      `json:"class"`
	Driver    string      `json:"driver"`
	Namespace string      `json:"namespace"`
	Size      string      `json:"size"`
	Name      string      `json:"name"` // of what was made, with suffixes
	DryRun    bool        `json:"dryRun,omitempty"`
	Steps     []CheckStep `json:"steps"`
	// Left are the objects that could not be deleted.
	Left []string `json:"left,omitempty"`
}

// CheckInput is what a plan for a check is made from.
type CheckInput struct {
	Class           *storagev1.StorageClass
	SnapshotClasses []snapshotv1.VolumeSnapshotClass
	SnapshotsUnread string // why snapshots cannot be taken; empty if they can
	SnapshotClass   string // of the flag; empty for the default or the first of the driver
	Skip            []string
}

// CheckPlan says which steps are taken, and why others are not.
type CheckPlan struct {
	Skip          map[string]string // steps that are not taken, and why
	SnapshotClass string
	// AfterPod is set if a volume is provisioned only when a pod uses the claim.
	AfterPod bool
	// Retains is set if the class keeps volumes: those of the check get the policy Delete before
	// they are deleted.
	Retains bool
}

// StepWords are the words by which --skip names steps.
var StepWords = map[string]string{
	"mount": StepMount, "write": StepWrite, "expand": StepGrow, "snapshot": StepSnapshot, "restore": StepRestore,
	"clone": StepClone,
}

// PlanCheck says which steps a class allows.
func PlanCheck(in CheckInput) CheckPlan {
	p := CheckPlan{Skip: map[string]string{}}
	class := in.Class
	p.AfterPod = class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	p.Retains = class.ReclaimPolicy != nil && *class.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	if class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		p.Skip[StepGrow] = "the class does not allow it (allowVolumeExpansion)"
	}
	p.SnapshotClass = snapshotClass(in)
	switch {
	case in.SnapshotsUnread != "":
		p.Skip[StepSnapshot] = in.SnapshotsUnread
	case p.SnapshotClass == "" && in.SnapshotClass != "":
		p.Skip[StepSnapshot] = fmt.Sprintf("VolumeSnapshotClass %s of driver %s does not exist", in.SnapshotClass,
			class.Provisioner)
	case p.SnapshotClass == "":
		p.Skip[StepSnapshot] = "driver " + class.Provisioner + " has no VolumeSnapshotClass"
	}
	for _, word := range in.Skip {
		p.Skip[StepWords[word]] = "--skip"
	}
	if why, skipped := p.Skip[StepSnapshot]; skipped && p.Skip[StepRestore] == "" {
		p.Skip[StepRestore] = "there is no snapshot: " + why
	}
	if p.AfterPod { // a volume of the class is made for a pod alone
		delete(p.Skip, StepMount)
	}
	return p
}

// snapshotClass returns the class that is named, else the default one of the driver, else its
// first.
func snapshotClass(in CheckInput) string {
	var of []snapshotv1.VolumeSnapshotClass
	for i := range in.SnapshotClasses {
		if c := in.SnapshotClasses[i]; c.Driver == in.Class.Provisioner && (in.SnapshotClass == "" ||
			in.SnapshotClass == c.Name) {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return ""
	}
	i := slices.IndexFunc(of, func(c snapshotv1.VolumeSnapshotClass) bool {
		return c.Annotations[names.AnnDefaultSnapshotClass] == "true"
	})
	return of[max(i, 0)].Name
}

// Grown returns the size that a volume is expanded to: twice as large.
func Grown(q resource.Quantity) resource.Quantity {
	bytes := size.Clamp(q)
	return size.Quantity(size.Sum(bytes, bytes))
}

// ExitCode is 1 if a step failed or something is left, and else 0.
func (r CheckReport) ExitCode() int {
	if len(r.Left) > 0 || slices.ContainsFunc(r.Steps, func(s CheckStep) bool { return s.Outcome == Failed }) {
		return ExitFound
	}
	return 0
}

// Print prints the report as one page.
func (r CheckReport) Print(p *Page) {
	r.PrintHead(p)
	for _, s := range r.Steps {
		s.Print(p)
	}
	r.PrintEnd(p)
}

// PrintHead prints the line above the steps.
func (r CheckReport) PrintHead(p *Page) {
	p.Line(Plain, "StorageClass %s, driver %s, namespace %s, %s, %s, %s", r.Class, r.Driver, r.Namespace, r.Size,
		r.Name, r.Time.Format("2006-01-02 15:04:05Z"))
}

// PrintEnd prints the lines below the steps.
func (r CheckReport) PrintEnd(p *Page) {
	for _, text := range r.Left {
		p.Line(Critical, "Left behind: %s", text)
	}
	switch {
	case r.DryRun:
		p.Line(Plain, "Nothing was made: this was a dry run.")
	case r.ExitCode() != 0:
		p.Line(Critical, "The class has failed the check.")
	default:
		skipped := 0
		for _, s := range r.Steps {
			if s.Outcome == Skipped {
				skipped++
			}
		}
		text := "The class has passed the check"
		if skipped > 0 {
			text += fmt.Sprintf(", as far as it went: %s skipped", plural(skipped, "step"))
		}
		p.Line(Good, "%s. Nothing is left.", text)
	}
}

// Print prints the line of one step.
func (s CheckStep) Print(p *Page) {
	level, took := map[Outcome]Level{Passed: Good, Failed: Critical, Skipped: Unknown}[s.Outcome], "-"
	if s.Outcome == Passed || s.Outcome == Failed {
		took = Took(time.Duration(s.Seconds * float64(time.Second)))
	}
	line := fmt.Sprintf("  %-7s  %7s  %-22s  %s", s.Outcome, took, s.Step, strings.ReplaceAll(s.Text, "\n", " "))
	p.Line(level, "%s", strings.TrimRight(line, " "))
}
