package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

type podQueue = workqueue.TypedRateLimitingInterface[kube.Key]

// podTask is the task about the pods of the node. The key of a pod of which only the folder is known
// has no name.
type podTask struct{ *Agent }

// podLoop returns the task about pods with the loop around it.
func (a *Agent) podLoop() *reconcile.Loop[kube.Key, mounting.PodSnapshot, mounting.PodAction] {
	return reconcile.New(reconcile.Config[kube.Key, mounting.PodSnapshot, mounting.PodAction]{
		Settings: a.Settings, Name: NamePods, Task: podTask{a}, Retries: reconcile.NewRetries[kube.Key](),
		Bound: reconcile.APITimeout,
	})
}

func (a *Agent) addPods(mgr manager.Manager) error {
	return reconcile.Register(mgr, reconcile.Registration[kube.Key]{
		Name: NamePods, Workers: a.Workers, Reconciler: a.podLoop(),
		Sources: []source.TypedSource[kube.Key]{
			source.TypedFunc[kube.Key](a.startPods),
			source.TypedKind(mgr.GetCache(), &corev1.Pod{}, a.podChanges()),
		},
	})
}

// startPods returns when the volumes of an earlier process are found: no pod is worked on before, or
// it would look as if nothing were mounted for it (5.10).
func (a *Agent) startPods(ctx context.Context, q podQueue) error {
	select {
	case <-a.inUse.begun:
	case <-ctx.Done():
		return nil
	}
	uids, err := a.podFolders()
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.pods = q
	a.mu.Unlock()
	for _, uid := range uids {
		q.Add(kube.Key{UID: uid})
	}
	return nil
}

// podFolders returns the pods that have a folder on the node.
func (a *Agent) podFolders() ([]types.UID, error) {
	entries, err := os.ReadDir(a.layout.Pods())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var uids []types.UID
	for _, entry := range entries {
		if entry.IsDir() {
			uids = append(uids, types.UID(entry.Name()))
		}
	}
	return uids, err
}

func (a *Agent) podChanges() handler.TypedEventHandler[*corev1.Pod, kube.Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[*corev1.Pod], q podQueue) {
		pod := c.Object()
		if pod.Spec.NodeName != a.Node {
			return
		}
		if c.IsDeleted() {
			a.teller.Forget(pod.UID)
			a.finished.Forget(pod.UID)
			a.records.forget(pod.UID)
		}
		q.Add(kube.KeyOf(pod))
	})
}

func (a *Agent) enqueuePod(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods != nil {
		a.pods.Add(kube.KeyOf(pod))
	}
}

// enqueueUID has a pod looked at of which only the uid is known.
func (a *Agent) enqueueUID(uid types.UID) {
	pods, err := a.listPods(context.Background(), client.MatchingFields{indexUID: string(uid)})
	if err == nil && len(pods) > 0 {
		a.enqueuePod(pods[0])
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods != nil {
		a.pods.Add(kube.Key{UID: uid})
	}
}

// Gather implements reconcile.Task.
func (t podTask) Gather(ctx context.Context, key kube.Key) (mounting.PodSnapshot, error) {
	s := mounting.PodSnapshot{
		UID: key.UID, Runtime: t.Runtime, Recorded: len(t.records.ofPod(key.UID)), Finished: t.finished.Has(key.UID),
	}
	pods, err := t.listPods(ctx, client.MatchingFields{indexUID: string(key.UID)})
	if err != nil {
		return s, err
	}
	if _, err := os.Lstat(t.layout.Pod(key.UID)); err == nil {
		s.HasFolder = true
	}
	if len(pods) == 0 {
		return s, nil
	}
	s.Pod = pods[0]
	uses, problems := mounting.Resolve(s.Pod, t.objects(ctx))
	s.Problems = problems
	for _, use := range uses {
		p, _ := t.records.get(use.Key).Publication(use.ID)
		s.Volumes = append(s.Volumes, mounting.PodVolume{
			Name: use.Name, Published: p.State == mounting.Certain, Why: t.records.statusOf(use.Key, use.ID),
		})
	}
	return s, nil
}

// Decide implements reconcile.Task.
func (t podTask) Decide(s mounting.PodSnapshot, _ time.Time) mounting.PodVerdict {
	return mounting.DecidePod(s)
}

// About implements reconcile.Task.
func (t podTask) About(key kube.Key, s mounting.PodSnapshot) reconcile.About {
	about := reconcile.About{Log: []any{"node", t.Node, telemetry.KeyPod, key.NamespacedName, "uid", key.UID}}
	if s.Pod != nil {
		about.Object = s.Pod // a wait of more than a minute is said on it
	}
	return about
}

// Apply implements reconcile.Task.
func (t podTask) Apply(
	ctx context.Context, s mounting.PodSnapshot, action mounting.PodAction,
) (mounting.PodVerdict, error) {
	switch act := action.(type) {
	case mounting.SetStatus:
		return nil, t.setStatus(ctx, s.Pod, act.Status)
	case mounting.NotePod:
		t.Events.Event(s.Pod, corev1.EventTypeNormal, act.Event, act.Message)
		return nil, nil
	case mounting.TellPod:
		t.tell(mounting.Tell{Pods: []*corev1.Pod{s.Pod}, Event: act.Event, Message: act.Message})
		return nil, nil
	case mounting.CleanPod:
		t.cleanPod(ctx, act.UID)
		return nil, nil
	case mounting.FinishPod:
		return nil, t.finish(ctx, s.Pod)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// finish deletes a pod.
func (t podTask) finish(ctx context.Context, pod *corev1.Pod) error {
	t.finished.Add(pod.UID, t.Clock.Now())
	uid := client.Preconditions{UID: &pod.UID}
	err := client.IgnoreNotFound(t.Writer.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), uid))
	if err != nil {
		t.finished.Forget(pod.UID)
	}
	return err
}

// setStatus writes fields of the pod's status. A merge keeps a field that the patch leaves out, so
// each condition has all of its fields, and the empty ones too.
func (t podTask) setStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	now := metav1.NewTime(t.Clock.Now())
	var conditions []map[string]any
	for _, c := range status.Conditions {
		conditions = append(conditions, map[string]any{
			"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastProbeTime": nil, "lastTransitionTime": now,
		})
	}
	fields := map[string]any{"conditions": conditions}
	if status.Phase != "" {
		fields["phase"], fields["startTime"] = status.Phase, now
		fields["initContainerStatuses"] = startedAt(status.InitContainerStatuses, now)
		fields["containerStatuses"] = startedAt(status.ContainerStatuses, now)
	}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": fields})
	if err != nil {
		return err
	}
	patch := client.RawPatch(types.StrategicMergePatchType, raw) // merges the list of conditions by type
	if err := t.Writer.Status().Patch(ctx, pod.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func startedAt(containers []corev1.ContainerStatus, now metav1.Time) []corev1.ContainerStatus {
	for i := range containers {
		if state := &containers[i].State; state.Running != nil {
			state.Running.StartedAt = now
		} else if state.Terminated != nil {
			state.Terminated.StartedAt, state.Terminated.FinishedAt = now, now
		}
	}
	return containers
}

// cleanPod removes what is empty in the folder of a pod that ends. Files in it are those of the
// program that ran its containers; they stay, and the log names the folder.
func (t podTask) cleanPod(ctx context.Context, uid types.UID) {
	if err := removeTree(t.layout.Pod(uid)); err != nil {
		logr.FromContextOrDiscard(ctx).Info(
			"orphaned pod found, but its folder is not empty and stays", "pod", uid, "problem", err.Error(),
		)
	}
}
