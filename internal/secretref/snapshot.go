package secretref

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// SnapshotScope is what the templates of a VolumeSnapshotClass or VolumeGroupSnapshotClass may use.
// Snapshot is the VolumeSnapshot or VolumeGroupSnapshot; it is empty for a call that belongs to none:
// ListSnapshots and GetVolumeGroupSnapshot (SN-P2).
type SnapshotScope struct {
	Snapshot types.NamespacedName
	Content  string
	kind     string // first part of the tokens
}

// The first parts of tokens.
const (
	ofSnapshot = "volumesnapshot"
	ofGroup    = "volumegroupsnapshot"
)

var (
	snapshotterPair = pair{
		name:      names.ParameterSnapshotterSecretName,
		namespace: names.ParameterSnapshotterSecretNamespace,
	}
	listPair = pair{
		name:      names.ParameterSnapshotterListSecretName,
		namespace: names.ParameterSnapshotterListSecretNamespace,
	}
	groupPair = pair{
		name:      names.ParameterGroupSnapshotterSecretName,
		namespace: names.ParameterGroupSnapshotterSecretNamespace,
	}
	groupGetPair = pair{
		name:      names.ParameterGroupSnapshotterGetName,
		namespace: names.ParameterGroupSnapshotterGetNamespace,
	}
)

// Snapshotter returns the secret for CreateSnapshot and DeleteSnapshot. The zero value without a
// problem says that there is none.
func Snapshotter(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return snapshotterPair.within(parameters, scope, ofSnapshot)
}

// SnapshotLister returns the secret for ListSnapshots.
func SnapshotLister(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return listPair.within(parameters, scope, ofSnapshot)
}

// GroupSnapshotter returns the secret for CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot.
func GroupSnapshotter(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return groupPair.within(parameters, scope, ofGroup)
}

// GroupGetter returns the secret for GetVolumeGroupSnapshot.
func GroupGetter(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return groupGetPair.within(parameters, scope, ofGroup)
}

func (p pair) within(
	parameters map[string]string, scope SnapshotScope, kind string,
) (types.NamespacedName, *Problem) {
	name, namespace, problem := p.templates(parameters)
	if problem != nil || name.key == "" {
		return types.NamespacedName{}, problem
	}
	scope.kind = kind
	return resolve(name, namespace, scope)
}

func (s SnapshotScope) forNamespace(token string) (string, bool) {
	switch token {
	case s.kind + "content.name":
		return s.Content, s.Content != ""
	case s.kind + ".namespace":
		return s.Snapshot.Namespace, s.Snapshot.Namespace != ""
	}
	return "", false
}

func (s SnapshotScope) forName(token string) (string, bool) {
	if token == s.kind+".name" {
		return s.Snapshot.Name, s.Snapshot.Name != ""
	}
	return s.forNamespace(token)
}
