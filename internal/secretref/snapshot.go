package secretref

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// SnapshotScope is what the templates of a VolumeSnapshotClass may use. Snapshot is empty for a
// listing, which belongs to no VolumeSnapshot (SN-P2).
type SnapshotScope struct {
	Snapshot types.NamespacedName
	Content  string
}

var (
	snapshotterPair = pair{
		name:      names.ParameterSnapshotterSecretName,
		namespace: names.ParameterSnapshotterSecretNamespace,
	}
	listPair = pair{
		name:      names.ParameterSnapshotterListSecretName,
		namespace: names.ParameterSnapshotterListSecretNamespace,
	}
)

// Snapshotter returns the secret for CreateSnapshot and DeleteSnapshot. The zero value without a
// problem says that there is none.
func Snapshotter(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return snapshotterPair.within(parameters, scope)
}

// SnapshotLister returns the secret for ListSnapshots.
func SnapshotLister(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return listPair.within(parameters, scope)
}

func (p pair) within(parameters map[string]string, scope tokens) (types.NamespacedName, *Problem) {
	name, namespace, problem := p.templates(parameters)
	if problem != nil || name.key == "" {
		return types.NamespacedName{}, problem
	}
	return resolve(name, namespace, scope)
}

func (s SnapshotScope) forNamespace(token string) (string, bool) {
	switch token {
	case "volumesnapshotcontent.name":
		return s.Content, s.Content != ""
	case "volumesnapshot.namespace":
		return s.Snapshot.Namespace, s.Snapshot.Namespace != ""
	}
	return "", false
}

func (s SnapshotScope) forName(token string) (string, bool) {
	if token == "volumesnapshot.name" {
		return s.Snapshot.Name, s.Snapshot.Name != ""
	}
	return s.forNamespace(token)
}

var (
	groupPair = pair{
		name:      names.ParameterGroupSnapshotterSecretName,
		namespace: names.ParameterGroupSnapshotterSecretNamespace,
	}
	groupGetPair = pair{
		name:      names.ParameterGroupSnapshotterGetName,
		namespace: names.ParameterGroupSnapshotterGetNamespace,
	}
)

// GroupScope is what the templates of a VolumeGroupSnapshotClass may use. Group is empty for
// GetVolumeGroupSnapshot, which belongs to no VolumeGroupSnapshot (SN-P2).
type GroupScope struct {
	Group   types.NamespacedName
	Content string
}

// GroupSnapshotter returns the secret for CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot.
// The zero value without a problem says that there is none.
func GroupSnapshotter(parameters map[string]string, scope GroupScope) (types.NamespacedName, *Problem) {
	return groupPair.within(parameters, scope)
}

// GroupGetter returns the secret for GetVolumeGroupSnapshot.
func GroupGetter(parameters map[string]string, scope GroupScope) (types.NamespacedName, *Problem) {
	return groupGetPair.within(parameters, scope)
}

func (s GroupScope) forNamespace(token string) (string, bool) {
	switch token {
	case "volumegroupsnapshotcontent.name":
		return s.Content, s.Content != ""
	case "volumegroupsnapshot.namespace":
		return s.Group.Namespace, s.Group.Namespace != ""
	}
	return "", false
}

func (s GroupScope) forName(token string) (string, bool) {
	if token == "volumegroupsnapshot.name" {
		return s.Group.Name, s.Group.Name != ""
	}
	return s.forNamespace(token)
}
