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

// BindingTrim configures [TrimForBinding]. While the transform has managedFields, it also detects
// another controller that binds claims.
type BindingTrim struct {
	Manager string    // the field manager of this process
	Since   time.Time // writes before this are ignored
	// Foreign is called once for each other field manager that has bound a claim; it may be nil.
	// Users can invent field managers, so after the first [mostManagers] all further ones are
	// reported as [OtherManagers].
	Foreign func(manager, claim string)
}

// TrimForBinding returns a cache transform for the controllers that bind, protect and expand claims
// and volumes. Of a bound pair it keeps what these decisions and the metrics read, and pools equal
// values. Unbound objects, and a claim that is being deleted, lose only their managedFields.
//
// The restrictions of [Trim] apply: use patches, and change only deep copies.
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
	if isWaiting(claim) && len(have.Conditions) > 0 && claim.Status.Conditions == nil {
		claim.Status.Conditions = otherConditions
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

// The condition Unused with each of its values, shared by all claims. Only its status is read.
var unusedConditions = map[corev1.ConditionStatus][]corev1.PersistentVolumeClaimCondition{
	corev1.ConditionTrue:  {{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue}},
	corev1.ConditionFalse: {{Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionFalse}},
}

// otherConditions stands for conditions that are not read. The binder reads of a claim that is not
// bound whether it has conditions.
var otherConditions = []corev1.PersistentVolumeClaimCondition{{Type: "other"}}

// unusedOnly returns only the condition Unused, and of that only the status.
func unusedOnly(conditions []corev1.PersistentVolumeClaimCondition) []corev1.PersistentVolumeClaimCondition {
	for i := range conditions {
		if conditions[i].Type == corev1.PersistentVolumeClaimUnused {
			return unusedConditions[conditions[i].Status]
		}
	}
	return nil
}

// isWaiting reports whether the claim is not bound yet.
func isWaiting(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.Phase != corev1.ClaimBound && claim.Status.Phase != corev1.ClaimLost
}

// isChanging reports whether the claim's volume is being expanded or modified, or should be. A
// resizer in the same process writes the claim's status.
func isChanging(claim *corev1.PersistentVolumeClaim) bool {
	return resizing.Concerns(claim) || attributes.Concerns(claim)
}

// isFree reports whether the volume is not bound yet.
func isFree(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == "" || pv.Status.Phase == corev1.VolumePending || pv.Status.Phase == corev1.VolumeAvailable
}

func trimBindingVolume(pv *corev1.PersistentVolume) {
	if isFree(pv) {
		pv.ManagedFields = nil
		return
	}
	labels := pv.Labels
	// The two annotations of the deletion secret are for a provisioner in the same process. Each
	// volume that upstream provisioned has them.
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

// sharedStorage returns a pooled list with only the storage size.
func sharedStorage(list corev1.ResourceList) corev1.ResourceList {
	size, ok := list[corev1.ResourceStorage]
	if !ok {
		return nil
	}
	return pooledStorage.get(size.String(), corev1.ResourceList{corev1.ResourceStorage: size})
}

// sharedSource keeps only the driver of a CSI volume, and only the type of another volume.
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

// foreignBinders detects another controller that binds claims. Two binders in a cluster conflict on
// each claim and emit each event twice.
type foreignBinders struct {
	config BindingTrim
	mu     sync.Mutex
	told   map[string]bool
}

// The fields that a binder writes in one update, as managedFields name them: the volume name and
// the annotation. A user who changes one of the two, or applies an exported claim, is no binder.
var boundFields = [][]byte{[]byte(`"f:` + names.AnnBindCompleted + `"`), []byte(`"f:volumeName"`)}

const (
	// OtherManagers is reported in place of the names of managers after the first [mostManagers].
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

// wrote reports whether the entry is the binding of a claim. A client that created the claim with
// the annotation restores it from a backup, and does not count.
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
