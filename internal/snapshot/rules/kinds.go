package snapshotting

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// kind is how VolumeSnapshots and VolumeGroupSnapshots differ where the rules are the same.
type kind struct {
	title    string // of the API kinds
	apiGroup string
	thing    string // in our messages
	sources  string // fields of a spec, exactly one of which is set

	noun, volumes, id, create string // in upstream's messages

	prefix                        string // of the names of contents
	finalizer, contentFinalizer   string
	creating, deleting            string // annotations of contents
	secretName, secretNamespace   string // annotations with the secret for the deletion
	defaultClass                  string // annotation of classes
	name, namespace, contentName  string // parameters with --extra-create-metadata
	createSecret, findSecret      secretOf
	invalid, contentAbsent        verdict.Reason
	contentUnfit, contentTaken    verdict.Reason
	classNotFound, classUnclear   verdict.Reason
	contentFailed                 verdict.Reason
	started, taken, usable        verdict.Reason
	createFailed, checkFailed     verdict.Reason
	deleteFailed, contentIsShared verdict.Reason
}

// secretOf resolves a secret that the parameters of a class name.
type secretOf func(map[string]string, secretref.SnapshotScope) (types.NamespacedName, *secretref.Problem)

var single = kind{
	title: "Snapshot", apiGroup: names.SnapshotGroup, thing: "snapshot",
	sources: "persistentVolumeClaimName and volumeSnapshotContentName",
	noun:    "snapshot", volumes: "volume", id: "snapshotID", create: "CreateSnapshot",
	prefix: "snapcontent-", finalizer: names.FinalizerSnapshotSource, contentFinalizer: names.FinalizerSnapshotContent,
	creating: names.AnnSnapshotBeingCreated, deleting: names.AnnSnapshotBeingDeleted,
	secretName: names.AnnSnapshotDeletionSecretName, secretNamespace: names.AnnSnapshotDeletionSecretNamespace,
	defaultClass: names.AnnDefaultSnapshotClass,
	name:         names.ParameterSnapshotName, namespace: names.ParameterSnapshotNamespace,
	contentName:  names.ParameterSnapshotContentName,
	createSecret: secretref.Snapshotter, findSecret: secretref.SnapshotLister,
	invalid: verdict.SnapshotInvalid, contentAbsent: verdict.SnapshotContentAbsent,
	contentUnfit: verdict.SnapshotContentUnfit, contentTaken: verdict.SnapshotContentTaken,
	classNotFound: verdict.SnapshotClassNotFound, classUnclear: verdict.SnapshotClassUnclear,
	contentFailed: verdict.SnapshotContentCreateFailed,
	started:       verdict.SnapshotStarted, taken: verdict.SnapshotTaken, usable: verdict.SnapshotUsable,
	createFailed: verdict.ContentCreateFailed, checkFailed: verdict.ContentCheckFailed,
	deleteFailed: verdict.ContentDeleteFailed, contentIsShared: verdict.ContentShared,
}

var group = kind{
	title: "GroupSnapshot", apiGroup: names.GroupSnapshotGroup, thing: "group",
	sources: "selector and volumeGroupSnapshotContentName",
	noun:    "group snapshot", volumes: "volumes", id: "groupSnapshotID", create: "CreateVolumeGroupSnapshot",
	prefix: "groupsnapcontent-", finalizer: names.FinalizerGroupSnapshot, contentFinalizer: names.FinalizerGroupContent,
	creating: names.AnnGroupBeingCreated, deleting: names.AnnGroupBeingDeleted,
	secretName: names.AnnGroupDeletionSecretName, secretNamespace: names.AnnGroupDeletionSecretNamespace,
	defaultClass: names.AnnDefaultGroupClass,
	name:         names.ParameterGroupSnapshotName, namespace: names.ParameterGroupSnapshotNamespace,
	contentName:  names.ParameterGroupSnapshotContentName,
	createSecret: secretref.GroupSnapshotter, findSecret: secretref.GroupGetter,
	invalid: verdict.GroupInvalid, contentAbsent: verdict.GroupContentAbsent,
	contentUnfit: verdict.GroupContentUnfit, contentTaken: verdict.GroupContentTaken,
	classNotFound: verdict.GroupClassNotFound, classUnclear: verdict.GroupClassUnclear,
	contentFailed: verdict.GroupContentCreateFailed,
	started:       verdict.GroupStarted, taken: verdict.GroupTaken, usable: verdict.GroupUsable,
	createFailed: verdict.GroupContentCallFailed, checkFailed: verdict.GroupContentCheckFailed,
	deleteFailed: verdict.GroupContentDeleteFailed, contentIsShared: verdict.GroupContentShared,
}

// objectKind is VolumeSnapshot or VolumeGroupSnapshot.
func (k *kind) objectKind() string  { return "Volume" + k.title }
func (k *kind) contentKind() string { return k.objectKind() + "Content" }
func (k *kind) classKind() string   { return k.objectKind() + "Class" }

// isGroup reports whether it is the kind of groups.
func (k *kind) isGroup() bool { return k == &group }

// failedContent is why no content is created.
func (k *kind) failedContent(format string, args ...any) verdict.Finding {
	return verdict.Because(k.contentFailed, "Failed to create "+k.noun+" content with error "+format, args...)
}
