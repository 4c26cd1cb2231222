package secretref

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
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
	return snapshotterPair.forSnapshot(parameters, scope)
}

// SnapshotLister returns the secret for ListSnapshots.
func SnapshotLister(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
	return listPair.forSnapshot(parameters, scope)
}

func (p pair) forSnapshot(parameters map[string]string, scope SnapshotScope) (types.NamespacedName, *Problem) {
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
