package kube

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/resizing"
)

// BindingTrim is what [TrimForBinding] looks out for while it sees the managers of each object.
type BindingTrim struct {
	Manager string    // whose writes are ours
	Since   time.Time // writes before this are of no interest
	// Foreign is told, once for each manager, of a claim that another binder has bound; nil for
	// no call. A user with a claim can invent managers: from a number on they are one,
	// [OtherManagers].
	Foreign func(manager, claim string)
}

// TrimForBinding returns a cache transform for the claims and volumes of the controllers that bind,
// protect and expand. Of a bound pair it keeps what those decide on and what metrics count, and
// what thousands have in common it keeps once. What is about to be bound, and a claim that is being
// deleted, stays whole, but for its managed fields.
//
// As with [Trim]: write patches, and change nothing that was not copied.
func TrimForBinding(config BindingTrim) toolscache.TransformFunc {
	foreign := &foreignBinders{config: config, told: map[string]bool{}}
	return func(in any) (any, error) {
		switch o := in.(type) {
		case *corev1.PersistentVolumeClaim:
			foreign.look(o)
			trimBindingClaim(o)
		case *corev1.PersistentVolume:
			trimBindingVolume(o)
		default:
			return Trim(in)
		}
		return in, nil
	}
}

func trimBindingClaim(claim *corev1.PersistentVolumeClaim) {
	if isWaiting(claim) || claim.DeletionTimestamp != nil || isChanging(claim) {
		claim.ManagedFields = nil
		return
	}
	owners := claim.OwnerReferences
	trimMeta(
		&claim.ObjectMeta,
		names.AnnBindCompleted,
		names.AnnBoundByController,
		names.AnnStorageProvisioner,
		names.AnnBetaStorageProvisioner,
		names.AnnSelectedNode,
		names.AnnBetaStorageClass,
		names.AnnMigratedTo,
		names.AnnStorageResizer,
	)
	claim.OwnerReferences = owners
	have := claim.Status
	claim.Status = corev1.PersistentVolumeClaimStatus{
		Phase: shared(have.Phase), AccessModes: sharedModes(have.AccessModes), Capacity: sharedStorage(have.Capacity),
		CurrentVolumeAttributesClassName: sharedText(have.CurrentVolumeAttributesClassName),
		Conditions:                       unusedOnly(have.Conditions),
	}
	if modify := have.ModifyVolumeStatus; modify != nil {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{
			TargetVolumeAttributesClassName: shared(modify.TargetVolumeAttributesClassName),
		}
	}
	spec := &claim.Spec
	spec.AccessModes = sharedModes(spec.AccessModes)
	spec.StorageClassName, spec.VolumeAttributesClassName = sharedText(
		spec.StorageClassName,
	), sharedText(
		spec.VolumeAttributesClassName,
	)
	spec.VolumeMode = sharedMode(spec.VolumeMode)
	if spec.VolumeName == "" {
		return
	}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		VolumeName: spec.VolumeName, StorageClassName: spec.StorageClassName,
		VolumeAttributesClassName: spec.VolumeAttributesClassName,
		VolumeMode:                spec.VolumeMode, AccessModes: spec.AccessModes,
		Resources: corev1.VolumeResourceRequirements{Requests: sharedStorage(spec.Resources.Requests)},
	}
}

// The condition Unused with each of its values. Claims share them: only the status is read.
var unusedConditions = map[corev1.ConditionStatus][]corev1.PersistentVolumeClaimCondition{
	corev1.ConditionTrue:  {{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue}},
	corev1.ConditionFalse: {{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionFalse}},
}

// unusedOnly keeps of the conditions the status of Unused.
func unusedOnly(conditions []corev1.PersistentVolumeClaimCondition) []corev1.PersistentVolumeClaimCondition {
	for i := range conditions {
		if conditions[i].Type == corev1.PersistentVolumeClaimUnused {
			return unusedConditions[conditions[i].Status]
		}
	}
	return nil
}

// isWaiting reports whether the claim is to be bound, or is just being bound.
func isWaiting(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase != corev1.ClaimBound && claim.Status.Phase != corev1.ClaimLost
}

// isChanging reports whether the claim's volume is to be expanded or modified, or is just being so.
// A resizer in the same process writes its status.
func isChanging(claim *corev1.PersistentVolumeClaim) bool {
	return resizing.Concerns(claim) || attributes.Concerns(claim)
}

// isFree reports whether the volume is to be bound, or is just being bound.
func isFree(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == "" || pv.Status.Phase == corev1.VolumePending || pv.Status.Phase == corev1.VolumeAvailable
}

func trimBindingVolume(pv *corev1.PersistentVolume) {
	if isFree(pv) {
		pv.ManagedFields = nil
		return
	}
	labels := pv.Labels
	// Those of the deletion are for a provisioner in the same process; every volume of upstream's
	// has them.
	trimMeta(
		&pv.ObjectMeta,
		names.AnnBoundByController,
		names.AnnProvisionedBy,
		names.AnnMigratedTo,
		names.AnnPreResizeCapacity,
		names.AnnBetaStorageClass,
		names.AnnDeletionSecretName,
		names.AnnDeletionSecretNamespace,
		names.AnnReuse,
	)
	have := pv.Spec
	spec := corev1.PersistentVolumeSpec{
		Capacity: sharedStorage(
			have.Capacity,
		), AccessModes: sharedModes(have.AccessModes), VolumeMode: sharedMode(have.VolumeMode),
		PersistentVolumeReclaimPolicy: shared(
			have.PersistentVolumeReclaimPolicy,
		), StorageClassName: shared(have.StorageClassName),
		VolumeAttributesClassName: sharedText(
			have.VolumeAttributesClassName,
		), PersistentVolumeSource: sharedSource(have.PersistentVolumeSource),
	}
	if ref := have.ClaimRef; ref != nil {
		spec.ClaimRef = &corev1.ObjectReference{Namespace: shared(ref.Namespace), Name: ref.Name, UID: ref.UID}
	} else {
		pv.Labels = labels // claims select by them
	}
	pv.Spec = spec
	trimVolumeStatus(&pv.Status)
}

var (
	pooledModes   pool[[]corev1.PersistentVolumeAccessMode]
	pooledStorage pool[corev1.ResourceList]
	pooledSources pool[*corev1.CSIPersistentVolumeSource]
	blockMode     = new(corev1.PersistentVolumeBlock)
	fileMode      = new(corev1.PersistentVolumeFilesystem)
)

func sharedText(text *string) *string {
	if text == nil {
		return nil
	}
	return pooledPointers.get(*text, text)
}

func sharedModes(modes []corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode {
	if len(modes) == 0 {
		return nil
	}
	return pooledModes.get(fmt.Sprint(modes), modes)
}

func sharedMode(mode *corev1.PersistentVolumeMode) *corev1.PersistentVolumeMode {
	switch {
	case mode == nil:
		return nil
	case *mode == corev1.PersistentVolumeBlock:
		return blockMode
	case *mode == corev1.PersistentVolumeFilesystem:
		return fileMode
	}
	return mode
}

// sharedStorage keeps the size only, once for all that have it.
func sharedStorage(list corev1.ResourceList) corev1.ResourceList {
	size, ok := list[corev1.ResourceStorage]
	if !ok {
		return nil
	}
	return pooledStorage.get(size.String(), corev1.ResourceList{corev1.ResourceStorage: size})
}

// sharedSource keeps which driver serves the volume, or of which kind it is otherwise.
func sharedSource(source corev1.PersistentVolumeSource) corev1.PersistentVolumeSource {
	if source.CSI != nil {
		driver := shared(source.CSI.Driver)
		return corev1.PersistentVolumeSource{
			CSI: pooledSources.get(driver, &corev1.CSIPersistentVolumeSource{Driver: driver}),
		}
	}
	var kind corev1.PersistentVolumeSource
	from, to := reflect.ValueOf(source), reflect.ValueOf(&kind).Elem()
	for i := range from.NumField() {
		if field := from.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
			to.Field(i).Set(reflect.New(field.Type().Elem()))
		}
	}
	return kind
}

// foreignBinders notices another controller that binds claims: two that do take turns at every
// claim, and tell people twice.
type foreignBinders struct {
	config BindingTrim
	mu     sync.Mutex
	told   map[string]bool
}

// What a binder writes, as managedFields name it: the volume and the annotation, in one update.
// A user who changes one of the two, or applies a claim that was exported, is none.
var boundFields = [][]byte{[]byte(`"f:` + names.AnnBindCompleted + `"`), []byte(`"f:volumeName"`)}

const (
	// OtherManagers is told in place of the names of managers that come after the first few.
	OtherManagers = "other"
	mostManagers  = 16
)

func (f *foreignBinders) look(claim *corev1.PersistentVolumeClaim) {
	if f.config.Foreign == nil {
		return
	}
	for i := range claim.ManagedFields {
		entry := &claim.ManagedFields[i]
		if entry.Manager != f.config.Manager && f.wrote(claim, entry) {
			f.tell(entry.Manager, claim.Namespace+"/"+claim.Name)
		}
	}
}

// wrote leaves out who created the claim with the annotation on it, which is a restore.
func (f *foreignBinders) wrote(claim *corev1.PersistentVolumeClaim, entry *metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Time != nil &&
		entry.Time.After(f.config.Since) &&
		!entry.Time.Equal(&claim.CreationTimestamp) &&
		entry.FieldsV1 != nil &&
		!slices.ContainsFunc(boundFields, func(field []byte) bool {
			return !bytes.Contains(entry.FieldsV1.GetRawBytes(),
				field)
		})
}

func (f *foreignBinders) tell(manager, claim string) {
	f.mu.Lock()
	if !f.told[manager] && len(f.told) >= mostManagers {
		manager = OtherManagers
	}
	first := !f.told[manager]
	f.told[strings.Clone(manager)] = true
	f.mu.Unlock()
	if first {
		f.config.Foreign(manager, claim)
	}
}
