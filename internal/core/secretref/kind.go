package secretref

import "github.com/purser-csi/purser/internal/core/names"

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

// pair is the parameters that make up one reference; old are the keys from before the prefix.
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

// fallback is the pair for every kind that has none of its own.
var fallback = pair{name: names.ParameterSecretName, namespace: names.ParameterSecretNamespace}

// candidates are the pairs that may name the secret of a kind; the first that is there does.
func candidates(k Kind) []pair {
	if k == Deletion {
		return []pair{pairs[Deletion], pairs[Provisioner], fallback}
	}
	return []pair{pairs[k], fallback}
}

// Older are the keys from before the prefix, each with the one that took its place.
func Older() map[string]string {
	older := map[string]string{}
	for _, p := range pairs {
		if p.oldName != "" {
			older[p.oldName], older[p.oldNamespace] = p.name, p.namespace
		}
	}
	return older
}

// Known are the keys that are not for the driver. The older keys are not among them.
func Known() []string {
	known := []string{fallback.name, fallback.namespace}
	for _, p := range pairs {
		known = append(known, p.name, p.namespace)
	}
	return known
}
