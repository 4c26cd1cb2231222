package reports

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience bounds every wait.
const patience = time.Minute

// script is one report that is played.
type script struct {
	plane            *controlPlane
	kind, name       string
	namespace        string
	dir              string
	remains          []*regexp.Regexp // what may remain at the end
	quiets, expanded int
}

// scriptList is a list for several goroutines.
type scriptList struct {
	mu      sync.Mutex
	scripts []*script
}

func (l *scriptList) add(s *script) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scripts = append(l.scripts, s)
}

func (l *scriptList) all() []*script {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.scripts)
}

// eventually repeats an attempt until it returns nil.
func eventually(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	pause := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 1.5, Steps: 1000, Cap: time.Second}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		now := attempt(ctx)
		if now == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil { // the last error says more than the timeout
			last = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", patience, last)
		case <-time.After(pause.Step()):
		}
	}
}

// quietClass is the name of the class of healthy claims, whose calls the answers of a script do not
// meet.
func (s *script) quietClass() string { return s.namespace + "-quiet" }

// create creates the namespace and the classes of the script.
func (s *script) create(ctx context.Context) error {
	parameters := map[string]string{ownerParameter: s.namespace}
	meta := metav1.ObjectMeta{Name: s.namespace}
	class := func(name, owner string) client.Object {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driverName,
			Parameters: map[string]string{ownerParameter: owner}, AllowVolumeExpansion: new(true),
		}
	}
	var errs []error
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: meta}, class(s.namespace, s.namespace), class(s.quietClass(), s.quietClass()),
		&snapshotv1.VolumeSnapshotClass{
			ObjectMeta: meta, Driver: driverName, Parameters: parameters, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		},
		&groupv1.VolumeGroupSnapshotClass{
			ObjectMeta: meta, Driver: driverName, Parameters: parameters, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		},
	} {
		errs = append(errs, s.plane.Client.Create(ctx, object))
	}
	return errors.Join(errs...)
}

// end clears the answers of the script, and deletes its namespace.
func (s *script) end(ctx context.Context, t testing.TB) {
	t.Helper()
	s.plane.driver.clear(s.namespace, "")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if err := s.plane.Client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete namespace: %v", err)
	}
}

// mustBeGone waits until nothing is left of the script, except what it says.
func (s *script) mustBeGone(t *testing.T) {
	t.Helper()
	err := eventually(t.Context(), func(ctx context.Context) error {
		if err := s.namespaceGone(ctx); err != nil {
			return err
		}
		left, err := s.left(ctx)
		if err != nil || len(left) == 0 {
			return err
		}
		return fmt.Errorf("still there: %s", strings.Join(left, ", "))
	})
	if err != nil {
		t.Errorf("everything deleted must go: %v\n%s", err, s.describeLeft(t))
	}
}

func (s *script) mayRemain(name string) bool {
	return slices.ContainsFunc(s.remains, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// namespaceGone returns an error while the namespace exists.
func (s *script) namespaceGone(ctx context.Context) error {
	if s.mayRemain("namespace/" + s.namespace) {
		return nil
	}
	var namespace corev1.Namespace
	err := s.plane.Client.Get(ctx, client.ObjectKey{Name: s.namespace}, &namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var texts []string
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			texts = append(texts, c.Message)
		}
	}
	return fmt.Errorf("namespace %s is %s: %s", s.namespace, namespace.Status.Phase, strings.Join(texts, " "))
}

// left deletes the objects of the cluster that the script has made, and returns what remains of them
// and in the driver.
func (s *script) left(ctx context.Context) (left []string, err error) {
	api := s.plane.Client
	for _, k := range []struct {
		name string
		list client.ObjectList
	}{
		{"volumeattachment", &storagev1.VolumeAttachmentList{}},
		{"pv", &corev1.PersistentVolumeList{}},
		{"volumesnapshotcontent", &snapshotv1.VolumeSnapshotContentList{}},
		{"volumegroupsnapshotcontent", &groupv1.VolumeGroupSnapshotContentList{}},
		{"storageclass", &storagev1.StorageClassList{}},
		{"volumesnapshotclass", &snapshotv1.VolumeSnapshotClassList{}},
		{"volumegroupsnapshotclass", &groupv1.VolumeGroupSnapshotClassList{}},
		{"volumeattributesclass", &storagev1.VolumeAttributesClassList{}},
		{"node", &corev1.NodeList{}},
		{"csinode", &storagev1.CSINodeList{}},
		{"csidriver", &storagev1.CSIDriverList{}},
	} {
		if err := api.List(ctx, k.list); err != nil {
			return nil, err
		}
		for _, object := range items(k.list) {
			if !s.owns(object) || s.mayRemain(k.name+"/"+object.GetName()) {
				continue
			}
			left = append(left, k.name+"/"+object.GetName())
			if object.GetDeletionTimestamp() == nil && !goesByItself(object) {
				err = errors.Join(err, client.IgnoreNotFound(api.Delete(ctx, object)))
			}
		}
		if k.name == "volumegroupsnapshotcontent" && len(left) > 0 {
			break // their classes may have the Secrets that deletion needs
		}
	}
	for _, owner := range []string{s.namespace, s.quietClass()} {
		for _, thing := range s.plane.driver.things(owner, true) {
			if !s.mayRemain(thing) {
				left = append(left, "driver's "+thing)
			}
		}
	}
	return left, err
}

// goesByItself reports whether a controller deletes an object of a namespace that is gone: a volume
// with the policy Delete, an attachment.
func goesByItself(object client.Object) bool {
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		return o.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && o.Spec.ClaimRef != nil &&
			o.Spec.ClaimRef.UID != ""
	case *storagev1.VolumeAttachment:
		return strings.HasPrefix(o.Name, "csi-") // the attach-detach controller's
	}
	return false
}

// owns reports whether an object belongs to the script: by its name, or by its namespace.
func (s *script) owns(object client.Object) bool {
	if name := object.GetName(); name == s.namespace || strings.HasPrefix(name, s.namespace+"-") {
		return true
	}
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		return o.Spec.ClaimRef != nil && o.Spec.ClaimRef.Namespace == s.namespace
	case *snapshotv1.VolumeSnapshotContent:
		return o.Spec.VolumeSnapshotRef.Namespace == s.namespace
	case *groupv1.VolumeGroupSnapshotContent:
		return o.Spec.VolumeGroupSnapshotRef.Namespace == s.namespace
	}
	return false
}

// describeLeft prints the objects that remain, with their finalizers.
func (s *script) describeLeft(t *testing.T) string {
	t.Helper()
	columns := "KIND:.kind,NAME:.metadata.name,DELETED:.metadata.deletionTimestamp,FINALIZERS:.metadata.finalizers,ANNOTATIONS:.metadata.annotations"
	text, err := s.plane.Kubectl(t.Context(), "get", "-n", s.namespace, "-o", "custom-columns="+columns,
		"pvc,pod,volumesnapshot,volumegroupsnapshot,pv,volumesnapshotcontent,volumegroupsnapshotcontent,volumeattachment")
	if err != nil {
		return err.Error()
	}
	return text
}
