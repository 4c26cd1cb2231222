package secretref

import "github.com/purser-csi/purser/internal/names"

// Kind is the kind of call that a secret is for.
type Kind int

// The kinds of upstream, and one of our own.
const (
	Provisioner       Kind = iota // CreateVolume, and DeleteVolume unless there is one of kind Deletion
	ControllerPublish             // ControllerPublishVolume
	NodeStage                     // NodeStageVolume
	NodePublish                   // NodePublishVolume
	ControllerExpand              // ControllerExpandVolume
	NodeExpand                    // NodeExpandVolume
	ControllerModify              // ControllerModifyVolume
	Deletion                      // DeleteVolume (O-32)
	kinds
)

// pair is the two parameters of one reference, and their deprecated keys.
type pair struct{ name, namespace, oldName, oldNamespace string }

var pairs = [kinds]pair{
	Provisioner: {
		names.ParameterProvisionerSecretName, names.ParameterProvisionerSecretNamespace,
		names.OldParameterProvisionerSecretName, names.OldParameterProvisionerSecretNamespace,
	},
	ControllerPublish: {
		names.ParameterControllerPublishSecretName, names.ParameterControllerPublishSecretNamespace,
		names.OldParameterControllerPublishSecretName, names.OldParameterControllerPublishSecretNamespace,
	},
	NodeStage: {
		names.ParameterNodeStageSecretName, names.ParameterNodeStageSecretNamespace,
		names.OldParameterNodeStageSecretName, names.OldParameterNodeStageSecretNamespace,
	},
	NodePublish: {
		names.ParameterNodePublishSecretName, names.ParameterNodePublishSecretNamespace,
		names.OldParameterNodePublishSecretName, names.OldParameterNodePublishSecretNamespace,
	},
	ControllerExpand: {
		name:      names.ParameterControllerExpandSecretName,
		namespace: names.ParameterControllerExpandSecretNamespace,
	},
	NodeExpand: {name: names.ParameterNodeExpandSecretName, namespace: names.ParameterNodeExpandSecretNamespace},
	ControllerModify: {
		name:      names.ParameterControllerModifySecretName,
		namespace: names.ParameterControllerModifySecretNamespace,
	},
	Deletion: {name: names.OwnParameterDeletionSecretName, namespace: names.OwnParameterDeletionSecretNamespace},
}

// fallback is the pair for every kind without a pair in the class.
var fallback = pair{name: names.ParameterSecretName, namespace: names.ParameterSecretNamespace}

// candidates returns the pairs that may name the secret of a kind; the first one that is set wins.
func candidates(k Kind) []pair {
	if k == Deletion {
		return []pair{pairs[Deletion], pairs[Provisioner], fallback}
	}
	return []pair{pairs[k], fallback}
}

// Older returns the deprecated keys, each with its replacement.
func Older() map[string]string {
	older := map[string]string{}
	for _, p := range pairs {
		if p.oldName != "" {
			older[p.oldName], older[p.oldNamespace] = p.name, p.namespace
		}
	}
	return older
}

// Keys are the two parameters of a class that name a secret.
type Keys struct{ Name, Namespace string }

// Pairs returns the parameters that name secrets, of the classes of volumes, snapshots and groups, deprecated
// ones too.
func Pairs() []Keys {
	var all []Keys
	for _, p := range append(pairs[:], fallback, snapshotterPair, listPair, groupPair, groupGetPair) {
		all = append(all, Keys{p.name, p.namespace})
		if p.oldName != "" {
			all = append(all, Keys{p.oldName, p.oldNamespace})
		}
	}
	return all
}

// Known returns the keys that are not passed to the driver. Deprecated keys are.
func Known() []string {
	known := []string{fallback.name, fallback.namespace}
	for _, p := range pairs {
		known = append(known, p.name, p.namespace)
	}
	return known
}
