package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/size"
)

// Config says what is tried.
type Config struct {
	Client        client.Client
	Namespace     string
	Name          string // of this check; begins the names of all objects
	Class         *storagev1.StorageClass
	SnapshotClass string
	Skip          []string
	Size          resource.Quantity
	Mode          corev1.PersistentVolumeAccessMode
	Image         string
	HostNetwork   bool // of the pods
	StepTimeout   time.Duration
	Timeout       time.Duration // of the whole check, a quarter of it for the deletion; 0 for no limit
	Poll          time.Duration
	Progress      func(rules.CheckStep) // is called at the end of each step
}

// Plan reads what the class allows.
func Plan(ctx context.Context, cfg Config) (rules.CheckPlan, error) {
	in := rules.CheckInput{Class: cfg.Class, SnapshotClass: cfg.SnapshotClass, Skip: cfg.Skip}
	var classes snapshotv1.VolumeSnapshotClassList
	err := cfg.Client.List(ctx, &classes)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		in.SnapshotsUnread = "the cluster does not serve VolumeSnapshots"
	case apierrors.IsForbidden(err):
		in.SnapshotsUnread = "the permission to list VolumeSnapshotClasses is missing"
	case err != nil:
		return rules.CheckPlan{}, fmt.Errorf("list VolumeSnapshotClasses: %w", err)
	}
	in.SnapshotClasses = classes.Items
	return rules.PlanCheck(in), nil
}

// DryRun returns the steps that would be taken, and whether the API server would take the claim.
func DryRun(ctx context.Context, cfg Config, plan rules.CheckPlan) rules.CheckReport {
	r := cfg.Report()
	r.DryRun = true
	for _, step := range allSteps {
		s := rules.CheckStep{Step: step, Outcome: rules.Planned}
		if why := plan.Skip[step]; why != "" {
			s.Outcome, s.Text = rules.Skipped, why
		}
		if step == rules.StepCreate {
			if err := cfg.Client.Create(ctx, cfg.claim("", nil, cfg.Size), client.DryRunAll); err != nil {
				s.Outcome, s.Text = rules.Failed, "the API server refuses it: "+err.Error()
			}
		}
		r.Steps = append(r.Steps, s)
	}
	return r
}

var allSteps = []string{
	rules.StepCreate, rules.StepMount, rules.StepWrite, rules.StepGrow, rules.StepSnapshot, rules.StepRestore,
	rules.StepClone, rules.StepDelete,
}

// Report returns the report before the first step.
func (cfg Config) Report() rules.CheckReport {
	return rules.CheckReport{
		Schema: rules.SchemaCheck, Time: time.Now().UTC(), Class: cfg.Class.Name, Driver: cfg.Class.Provisioner,
		Namespace: cfg.Namespace, Size: cfg.Size.String(), Name: cfg.Name,
	}
}

// run is a check that runs.
type run struct {
	Config
	plan    rules.CheckPlan
	report  rules.CheckReport
	failed  map[string]bool
	written string          // checksum of what was written; empty for nothing
	grown   bool            // the claim has twice the size
	volumes map[string]bool // names of PersistentVolumes of the check
}

// Run takes all steps, and deletes everything also after a failure and when ctx or the time of the
// check ends.
func Run(ctx context.Context, cfg Config, plan rules.CheckPlan) rules.CheckReport {
	r := &run{Config: cfg, plan: plan, report: cfg.Report(), failed: map[string]bool{}, volumes: map[string]bool{}}
	if cfg.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, cfg.Timeout-cfg.forDeletion())
		defer stop()
	}
	r.step(ctx, rules.StepCreate, nil, r.create)
	r.step(ctx, rules.StepMount, []string{rules.StepCreate}, r.mount)
	r.step(ctx, rules.StepWrite, []string{rules.StepCreate, rules.StepMount}, r.write)
	r.step(ctx, rules.StepGrow, []string{rules.StepCreate}, r.grow)
	r.step(ctx, rules.StepSnapshot, []string{rules.StepCreate}, r.snapshot)
	r.step(ctx, rules.StepRestore, []string{rules.StepSnapshot}, r.restore)
	r.step(ctx, rules.StepClone, []string{rules.StepCreate}, r.clone)
	r.clean(ctx)
	return r.report
}

// forDeletion returns how long the deletion may take.
func (cfg Config) forDeletion() time.Duration {
	if cfg.Timeout == 0 {
		return cfg.StepTimeout
	}
	return min(cfg.StepTimeout, cfg.Timeout/deletionPart)
}

// deletionPart is the part of the time of a check in which everything is deleted.
const deletionPart = 4

// skipped is an outcome of a step that cannot be taken here.
type skipped string

// Error implements error.
func (s skipped) Error() string { return string(s) }

const interrupted = "interrupted"

// step takes one step, unless the plan leaves it out or one that it needs has not passed.
func (r *run) step(ctx context.Context, name string, needs []string, do func(context.Context) (string, error)) {
	if why := r.plan.Skip[name]; why != "" {
		r.end(name, rules.Skipped, 0, why)
		return
	}
	for _, need := range needs {
		if r.failed[need] {
			r.failed[name] = true
			r.end(name, rules.Skipped, 0, "it needs: "+need)
			return
		}
	}
	if ctx.Err() != nil {
		r.failed[name] = true
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r.end(name, rules.Failed, 0, fmt.Sprintf("not begun: the check may take %s in all", r.Timeout))
		} else {
			r.end(name, rules.Skipped, 0, interrupted)
		}
		return
	}
	began := time.Now()
	bounded, stop := context.WithTimeout(ctx, r.StepTimeout)
	defer stop()
	text, err := do(bounded)
	took := time.Since(began)
	switch why, isSkipped := errors.AsType[skipped](err); {
	case isSkipped:
		r.end(name, rules.Skipped, 0, string(why))
	case err != nil:
		r.failed[name] = true
		if errors.Is(ctx.Err(), context.Canceled) {
			err = errors.New(interrupted)
		}
		r.end(name, rules.Failed, took, err.Error())
	default:
		r.end(name, rules.Passed, took, text)
	}
}

func (r *run) end(name string, outcome rules.Outcome, took time.Duration, text string) {
	s := rules.CheckStep{Step: name, Outcome: outcome, Seconds: took.Seconds(), Text: text}
	r.report.Steps = append(r.report.Steps, s)
	r.Progress(s)
}

// create makes the claim. If a volume is made for a pod alone, it makes the pod as well.
func (r *run) create(ctx context.Context) (string, error) {
	if err := r.Client.Create(ctx, r.claim("", nil, r.Size)); err != nil {
		return "", err
	}
	text := ""
	if r.plan.AfterPod {
		if err := r.Client.Create(ctx, r.pod("", script{write: true})); err != nil {
			return "", err
		}
		text = "with its pod, as the class waits for the first consumer"
	}
	return text, r.bound(ctx, r.Name)
}

func (r *run) mount(ctx context.Context) (string, error) {
	if !r.plan.AfterPod {
		if err := r.Client.Create(ctx, r.pod("", script{write: true})); err != nil {
			return "", err
		}
	}
	pod, err := r.mounted(ctx, r.Name)
	if err != nil {
		return "", err
	}
	return "on node " + pod.Spec.NodeName, nil
}

// write waits until the pod has written to the volume and has read it back.
func (r *run) write(ctx context.Context) (string, error) {
	if r.plan.Skip[rules.StepMount] != "" {
		return "", skipped("no pod mounts the volume")
	}
	sum, err := r.answerOf(ctx, r.Name)
	if err != nil {
		return "", err
	}
	r.written = sum
	return "1Mi, SHA-256 " + sum[:min(len(sum), 12)], nil
}

// grow expands the claim. If that does not end while the volume is mounted, its pod is made again:
// some drivers and kernels expand only what is not.
func (r *run) grow(ctx context.Context) (string, error) {
	to := rules.Grown(r.Size)
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, to.String())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	if err := r.Client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return "", err
	}
	r.grown = true
	isMounted := r.plan.Skip[rules.StepMount] == "" && !r.failed[rules.StepMount]
	if !isMounted {
		return "to " + to.String(), r.hasGrown(ctx, claim, to, false)
	}
	online, stop := context.WithTimeout(ctx, r.StepTimeout/onlinePart)
	defer stop()
	err := r.hasGrown(online, claim, to, true)
	if err == nil || errors.As(err, new(stopped)) || ctx.Err() != nil {
		return "to " + to.String() + ", while it was mounted", err
	}
	if err := r.remade(ctx); err != nil {
		return "", err
	}
	const how = ", for a new pod: it was not expanded while it was mounted"
	return "to " + to.String() + how, r.hasGrown(ctx, claim, to, true)
}

// onlinePart is the part of the time of a step after which a mounted volume should be expanded.
const onlinePart = 3

// hasGrown waits until a claim has a size.
func (r *run) hasGrown(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, to resource.Quantity, isMounted bool,
) error {
	return r.until(ctx, func(ctx context.Context) (string, error) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return "", err
		}
		volume := &corev1.PersistentVolume{}
		if err := r.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume); err != nil {
			return "", err
		}
		growth := rules.GrowthOf(claim, volume, to, isMounted)
		if growth.Failed {
			return "", stopped{errors.New(growth.Text)}
		}
		if growth.Done {
			return "", nil
		}
		return growth.Text, nil
	})
}

func (r *run) snapshot(ctx context.Context) (string, error) {
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: r.meta("")}
	vs.Spec.Source.PersistentVolumeClaimName, vs.Spec.VolumeSnapshotClassName = &r.Name, &r.plan.SnapshotClass
	if err := r.Client.Create(ctx, vs); err != nil {
		return "", err
	}
	err := r.until(ctx, func(ctx context.Context) (string, error) {
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(vs), vs); err != nil {
			return "", err
		}
		switch s := vs.Status; {
		case s != nil && s.ReadyToUse != nil && *s.ReadyToUse:
			return "", nil
		case s != nil && s.Error != nil && s.Error.Message != nil:
			return *s.Error.Message, nil
		}
		return "it is not ready to use", nil
	})
	return "class " + r.plan.SnapshotClass, err
}

func (r *run) restore(ctx context.Context) (string, error) {
	group := snapshotv1.GroupName
	return r.copy(
		ctx, "-restored", &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: r.Name},
	)
}

func (r *run) clone(ctx context.Context) (string, error) {
	return r.copy(ctx, "-clone", &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: r.Name})
}

// copy makes a claim from a source, and compares what is on it with what was written, in a pod.
func (r *run) copy(ctx context.Context, suffix string, source *corev1.TypedLocalObjectReference) (string, error) {
	to := r.Size
	if r.grown {
		to = rules.Grown(r.Size)
	}
	if err := r.Client.Create(ctx, r.claim(suffix, source, to)); err != nil {
		return "", err
	}
	withPod := r.written != "" || r.plan.AfterPod
	if withPod {
		if err := r.Client.Create(ctx, r.pod(suffix, script{})); err != nil {
			return "", err
		}
	}
	if err := r.bound(ctx, r.Name+suffix); err != nil {
		return "", err
	}
	if r.written == "" {
		return "what is on it was not read, as nothing was written", nil
	}
	if _, err := r.mounted(ctx, r.Name+suffix); err != nil {
		return "", err
	}
	sum, err := r.answerOf(ctx, r.Name+suffix)
	if err == nil && sum != r.written {
		err = fmt.Errorf("the file on it has SHA-256 %s, and %s was written", sum, r.written)
	}
	return "it has what was written", err
}

// claim returns a claim of the check.
func (cfg Config) claim(
	suffix string, source *corev1.TypedLocalObjectReference, of resource.Quantity,
) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: cfg.meta(suffix),
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &cfg.Class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{cfg.Mode},
			DataSource: source,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size.Quantity(size.Clamp(of))},
			},
		},
	}
}
