package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/record"
)

const (
	// patience bounds every wait for a condition.
	patience = 40 * time.Second
	// calm is how long nothing may change before a scenario counts as settled. It is longer than
	// the longest delay between two attempts.
	calm = 3000 * time.Millisecond
)

// scene has the namespace of one scenario, which has its name, and the drivers.
type scene struct {
	client.Client // reads from a cache
	live          client.Reader
	name          string
	main          *driver // has no LIST_SNAPSHOTS
	lister        *driver
	standard      *driver  // has one default class, where a scenario asks for it
	problem       error    // the first one; the steps after it do nothing
	known         []string // uids of VolumeSnapshots and what stands for them
}

func (s *scene) check(err error) {
	if s.problem == nil {
		s.problem = err
	}
}

// do runs one step unless an earlier one failed.
func (s *scene) do(step func(context.Context) error) {
	if s.problem != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.check(step(ctx))
}

func (s *scene) create(o client.Object) {
	s.do(func(ctx context.Context) error { return s.Create(ctx, o) })
}

// own is the name of an object without a namespace.
func (s *scene) own(name string) string { return s.name + "." + name }

// pair creates a claim and its volume, bound to each other, of the driver named.
func (s *scene) pair(name, driver string) {
	s.volume(s.pending(name, nil), corev1.PersistentVolumeSource{
		CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: s.own(name)},
	})
	s.bind(name)
}

// pending creates a claim without a volume, which may have a source.
func (s *scene) pending(name string, change func(*corev1.PersistentVolumeClaimSpec)) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(""), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if change != nil {
		change(&claim.Spec)
	}
	s.create(claim)
	return claim
}

// bind binds a claim to the volume of its name.
func (s *scene) bind(name string) {
	s.do(func(ctx context.Context) error {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
		if err := s.Patch(ctx, claim, merge(`{"spec":{"volumeName":%q}}`, s.own(name))); err != nil {
			return err
		}
		return s.Status().Patch(ctx, claim, merge(`{"status":{"phase":"Bound"}}`))
	})
}

func merge(format string, args ...any) client.Patch {
	return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, format, args...))
}

// class creates a VolumeSnapshotClass of the scenario.
func (s *scene) class(name, driver string, policy snapshotv1.DeletionPolicy, parameters map[string]string, annotations ...string) {
	class := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.own(name)}, Driver: driver, DeletionPolicy: policy, Parameters: parameters,
	}
	for _, key := range annotations {
		metav1.SetMetaDataAnnotation(&class.ObjectMeta, key, "true")
	}
	s.create(class)
}

// take creates a VolumeSnapshot of a claim. An empty class is none.
func (s *scene) take(name, class, claim string, change ...func(*snapshotv1.VolumeSnapshot)) *snapshotv1.VolumeSnapshot {
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
	}
	if class != "" {
		vs.Spec.VolumeSnapshotClassName = new(s.own(class))
	}
	for _, c := range change {
		c(vs)
	}
	s.create(vs)
	s.known = append(s.known, string(vs.UID), "<uid:vs/"+name+">")
	return vs
}

// adopt creates a VolumeSnapshot for a content that exists.
func (s *scene) adopt(name, class, content string) *snapshotv1.VolumeSnapshot {
	return s.take(name, class, "", func(vs *snapshotv1.VolumeSnapshot) {
		vs.Spec.Source = snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: new(s.own(content))}
	})
}

// content creates a content for a snapshot that exists.
func (s *scene) content(name, snapshot, driver string, policy snapshotv1.DeletionPolicy, change ...func(*snapshotv1.VolumeSnapshotContent)) {
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: s.own(name)}, Spec: snapshotv1.VolumeSnapshotContentSpec{
		VolumeSnapshotRef: corev1.ObjectReference{Namespace: s.name, Name: snapshot}, Driver: driver, DeletionPolicy: policy,
		Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new(s.own(name))},
	}}
	for _, c := range change {
		c(content)
	}
	s.create(content)
}

func (s *scene) secret(name string) {
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}, StringData: map[string]string{"key": "value"}})
}

// until waits for a condition of an object.
func until[T client.Object](s *scene, o T, what string, holds func(T) bool) {
	s.do(func(ctx context.Context) error {
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := s.Get(ctx, client.ObjectKeyFromObject(o), o)
			return err == nil && holds(o), client.IgnoreNotFound(err)
		})
		if err != nil {
			return fmt.Errorf("%s: not %s: %w", o.GetName(), what, err)
		}
		return nil
	})
}

func (s *scene) ready(vs *snapshotv1.VolumeSnapshot) {
	until(s, vs, "ready", func(vs *snapshotv1.VolumeSnapshot) bool {
		return vs.Status != nil && ptr.Deref(vs.Status.ReadyToUse, false)
	})
}

func (s *scene) failed(vs *snapshotv1.VolumeSnapshot) {
	until(s, vs, "failed", func(vs *snapshotv1.VolumeSnapshot) bool { return vs.Status != nil && vs.Status.Error != nil })
}

// contentOf returns the content of a dynamic snapshot.
func contentOf(vs *snapshotv1.VolumeSnapshot) *snapshotv1.VolumeSnapshotContent {
	return &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-" + string(vs.UID)}}
}

// delete deletes an object. A claim has lost the finalizer for whose removal no controller runs.
func (s *scene) delete(o client.Object) {
	if claim, is := o.(*corev1.PersistentVolumeClaim); is {
		s.unprotect(claim.Name)
	}
	s.do(func(ctx context.Context) error {
		return s.Delete(ctx, o.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy has the type
	})
}

// unprotect removes the finalizer that the API server gives to each claim.
func (s *scene) unprotect(name string) {
	s.do(func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			claim := &corev1.PersistentVolumeClaim{}
			if err := s.live.Get(ctx, client.ObjectKey{Namespace: s.name, Name: name}, claim); err != nil {
				return err
			}
			claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == names.FinalizerPVCProtection })
			return s.Update(ctx, claim)
		})
	})
}

// gone waits until an object does not exist.
func (s *scene) gone(o client.Object) {
	s.do(func(ctx context.Context) error {
		return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			err := s.Get(ctx, client.ObjectKeyFromObject(o), o)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	})
}

// settle waits until the outcome has not changed for a while, and returns it. Repeated writes of
// the same error do not change it.
func (s *scene) settle() (last outcome.Outcome) {
	since, seen := time.Now(), ""
	s.do(func(ctx context.Context) error {
		return wait.PollUntilContextCancel(ctx, 250*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			now, err := s.objects(ctx)
			if err != nil {
				return false, err
			}
			if v := versions(now); v != seen {
				seen = v
				if out := s.outcome(now); !maps.Equal(out, last) {
					since, last = time.Now(), out
				}
			}
			return time.Since(since) > calm, nil
		})
	})
	return last
}

var (
	snapshotKind = record.Kind{Name: "vs", Namespaced: true}
	contentKind  = record.Kind{Name: "vsc"}

	groupKind        = record.Kind{Name: "vgs", Namespaced: true}
	groupContentKind = record.Kind{Name: "vgsc"}
)

// objects reads the objects of the scenario.
func (s *scene) objects(ctx context.Context) (all []record.Change, err error) {
	claims, snapshots, contents := &corev1.PersistentVolumeClaimList{}, &snapshotv1.VolumeSnapshotList{}, &snapshotv1.VolumeSnapshotContentList{}
	err = errors.Join(s.List(ctx, claims, client.InNamespace(s.name)), s.List(ctx, snapshots, client.InNamespace(s.name)), s.List(ctx, contents))
	for i := range claims.Items {
		all = append(all, change(record.Claims, &claims.Items[i]))
	}
	for i := range snapshots.Items {
		all = append(all, change(snapshotKind, &snapshots.Items[i]))
	}
	for i := range contents.Items {
		if contents.Items[i].Spec.VolumeSnapshotRef.Namespace == s.name {
			all = append(all, change(contentKind, &contents.Items[i]))
		}
	}
	groups, groupContents, groupErr := s.groupObjects(ctx)
	if err = errors.Join(err, groupErr); err != nil {
		return nil, err
	}
	for i := range groups.Items {
		all = append(all, change(groupKind, &groups.Items[i]))
	}
	for i := range groupContents {
		all = append(all, change(groupContentKind, &groupContents[i]))
	}
	return all, nil
}

func change(kind record.Kind, o client.Object) record.Change {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err) // an object of the API
	}
	return record.Change{Kind: kind, Object: &unstructured.Unstructured{Object: fields}}
}

// vague are fields that differ from run to run, of which counts that they are set.
var vague = [][]string{
	{"status", "creationTime"},
	{"status", "error", "message"},
	{"status", "error", "time"},
	{"spec", "volumeSnapshotRef", "resourceVersion"},
	{"spec", "volumeGroupSnapshotRef", "resourceVersion"},
}

// outcome describes the objects.
func (s *scene) outcome(objects []record.Change) outcome.Outcome {
	for _, c := range objects {
		s.undateMembers(c)
		for _, path := range vague {
			value, found, _ := unstructured.NestedFieldNoCopy(c.Object.Object, path...)
			if !found || value == nil {
				continue
			}
			unstructured.RemoveNestedField(c.Object.Object, path...)
			if at, isNumber := value.(int64); isNumber && at < int64(time.Hour) || strings.HasPrefix(fmt.Sprint(value), "1970") {
				value = "1970"
			} else {
				value = "set"
			}
			last := len(path) - 1
			s.check(unstructured.SetNestedField(c.Object.Object, value, append(slices.Clone(path[:last]), path[last]+"?")...))
		}
	}
	out := outcome.Outcome{}
	for line := range outcome.Of(s.name, objects) {
		out[s.plain().Replace(line)] = true
	}
	return out
}

// undateMembers removes the creation times of the snapshots of a group, which differ from run to run.
func (s *scene) undateMembers(c record.Change) {
	list, found, _ := unstructured.NestedSlice(c.Object.Object, "status", "volumeSnapshotInfoList")
	if !found {
		return
	}
	for _, one := range list {
		if info, is := one.(map[string]any); is && info["creationTime"] != nil {
			info["creationTime"] = "set"
		}
	}
	s.check(unstructured.SetNestedSlice(c.Object.Object, list, "status", "volumeSnapshotInfoList"))
}

// plain replaces uids, and the scenario's name, by what they stand for.
func (s *scene) plain() *strings.Replacer {
	return strings.NewReplacer(append(slices.Clone(s.known), s.name+".", "", s.name, "<ns>")...)
}

// result is what the scenario leaves: objects, calls, snapshots in the backend.
func (s *scene) result() (outcome.Outcome, error) {
	out := maps.Clone(s.settle())
	if out == nil {
		out = outcome.Outcome{}
	}
	for _, d := range []*driver{s.main, s.lister, s.standard} {
		for _, line := range d.lines(s.name) {
			out[s.plain().Replace(line)] = true
		}
	}
	return out, s.problem
}

// versions tells two readings of the objects apart.
func versions(changes []record.Change) string {
	var text strings.Builder
	for _, c := range changes {
		text.WriteString(string(c.Object.GetUID()) + c.Object.GetResourceVersion() + " ")
	}
	return text.String()
}

// newScene makes the namespace of a scenario.
func newScene(t *testing.T, c client.Client, live client.Reader, name string, drivers [3]*driver) *scene {
	t.Helper()
	s := &scene{Client: c, live: live, name: name, main: drivers[0], lister: drivers[1], standard: drivers[2]}
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return s
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(corev1.AddToScheme(scheme), snapshotv1.AddToScheme(scheme), groupv1.AddToScheme(scheme))
}
