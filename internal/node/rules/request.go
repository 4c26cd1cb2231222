package mounting

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/size"
)

// Keys of the volume context of NodePublishVolume (5.6).
const (
	podInfoName      = "csi.storage.k8s.io/pod.name"
	podInfoNamespace = "csi.storage.k8s.io/pod.namespace"
	podInfoUID       = "csi.storage.k8s.io/pod.uid"
	podInfoAccount   = "csi.storage.k8s.io/serviceAccount.name"
	podInfoEphemeral = "csi.storage.k8s.io/ephemeral"
	// TokensKey has the tokens of the pod's service account, in the volume context or the secrets.
	TokensKey = "csi.storage.k8s.io/serviceAccount.tokens"
)

// StageRequest returns the request for a use, without secrets (5.5).
func (s Snapshot) StageRequest(l Layout, use Use) (*csi.NodeStageVolumeRequest, error) {
	c, err := s.capability(use)
	if err != nil {
		return nil, err
	}
	return &csi.NodeStageVolumeRequest{
		VolumeId: use.Key.VolumeID(), PublishContext: s.publishContext(),
		StagingTargetPath: l.Stage(use.Key, use.ID.Device()),
		VolumeCapability:  c, VolumeContext: maps.Clone(use.PV.Spec.CSI.VolumeAttributes),
	}, nil
}

// PublishRequest returns the request for a use, without secrets and tokens (5.6, 5.7).
func (s Snapshot) PublishRequest(l Layout, use Use) (*csi.NodePublishVolumeRequest, error) {
	c, err := s.capability(use)
	if err != nil {
		return nil, err
	}
	r := &csi.NodePublishVolumeRequest{
		VolumeId: use.Key.VolumeID(), PublishContext: s.publishContext(), TargetPath: l.Target(use.ID),
		VolumeCapability: c, Readonly: use.ReadOnly, VolumeContext: map[string]string{},
	}
	if use.PV != nil {
		maps.Copy(r.VolumeContext, use.PV.Spec.CSI.VolumeAttributes)
		if s.Driver.Stages || use.ID.Mode == Block {
			r.StagingTargetPath = l.Stage(use.Key, use.ID.Device())
		}
	} else {
		maps.Copy(r.VolumeContext, use.Inline.VolumeAttributes)
	}
	if s.Info != nil && s.Info.Spec.PodInfoOnMount != nil && *s.Info.Spec.PodInfoOnMount {
		maps.Copy(r.VolumeContext, map[string]string{
			podInfoName: use.Pod.Name, podInfoNamespace: use.Pod.Namespace, podInfoUID: string(use.Pod.UID),
			podInfoAccount: use.Pod.Spec.ServiceAccountName, podInfoEphemeral: strconv.FormatBool(use.Key.IsInline()),
		})
	}
	return r, nil
}

// ExpandRequest returns the request for a use that is published, without secrets (5.9).
func (s Snapshot) ExpandRequest(l Layout, use Use) (*csi.NodeExpandVolumeRequest, error) {
	c, err := s.capability(use)
	if err != nil {
		return nil, err
	}
	bytes, problem := size.Bytes(use.PV.Spec.Capacity[corev1.ResourceStorage])
	if problem != nil {
		return nil, fmt.Errorf("PersistentVolume %q spec.capacity.storage: %s", use.PV.Name, problem.Message)
	}
	r := &csi.NodeExpandVolumeRequest{
		VolumeId: use.Key.VolumeID(), VolumePath: l.Target(use.ID), VolumeCapability: c,
		CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
	}
	if s.Driver.Stages {
		r.StagingTargetPath = l.Stage(use.Key, use.ID.Device())
	}
	return r, nil
}

func (s Snapshot) publishContext() map[string]string {
	if !NeedsAttach(s.Info) || s.Attachment == nil {
		return nil
	}
	return maps.Clone(s.Attachment.Status.AttachmentMetadata)
}

// capability is that of the whole list of access modes; where CSI has no mode for the list, that of
// the first one, as a kubelet has it for every list (5.6).
func (s Snapshot) capability(use Use) (*csi.VolumeCapability, error) {
	pv := use.PV
	if pv == nil {
		fsType := ""
		if use.Inline.FSType != nil {
			fsType = *use.Inline.FSType
		}
		mode, err := csispec.AccessMode(
			[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, s.Driver.MultiWriters,
		)
		if err != nil {
			return nil, err
		}
		return s.withGroup(use, &csi.VolumeCapability{
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode},
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
		}), nil
	}
	o := csispec.CapabilityOptions{MultiWriters: s.Driver.MultiWriters}
	c, err := csispec.CapabilityOf(pv, o)
	if err != nil && len(pv.Spec.AccessModes) > 1 {
		first := *pv
		first.Spec.AccessModes = pv.Spec.AccessModes[:1]
		c, err = csispec.CapabilityOf(&first, o)
	}
	if err != nil {
		return nil, err
	}
	return s.withGroup(use, c), nil
}

// withGroup leaves the group of the files to a driver that sets it itself.
func (s Snapshot) withGroup(use Use, c *csi.VolumeCapability) *csi.VolumeCapability {
	if group := fsGroup(use.Pod); group != nil && s.Driver.MountGroup && c.GetMount() != nil {
		c.GetMount().VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	return c
}

// StageSecret returns the secret for NodeStageVolume; empty for none.
func (u Use) StageSecret() types.NamespacedName {
	return reference(u.PV.Spec.CSI.NodeStageSecretRef)
}

// ExpandSecret returns the secret for NodeExpandVolume; empty for none.
func (u Use) ExpandSecret() types.NamespacedName {
	return reference(u.PV.Spec.CSI.NodeExpandSecretRef)
}

// PublishSecret returns the secret for NodePublishVolume; empty for none. An inline volume names
// one in the pod's namespace.
func (u Use) PublishSecret() types.NamespacedName {
	if u.PV != nil {
		return reference(u.PV.Spec.CSI.NodePublishSecretRef)
	}
	if u.Inline.NodePublishSecretRef == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: u.Pod.Namespace, Name: u.Inline.NodePublishSecretRef.Name}
}

func reference(ref *corev1.SecretReference) types.NamespacedName {
	if ref == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// TokenRequest is one token that the driver wants of the pod's service account.
type TokenRequest struct {
	Audience  string // empty for the API server's own
	ExpiresIn *int64 // seconds
}

// TokenRequests returns the tokens that the driver wants. inSecrets reports whether they go into
// the secrets of the call instead of the volume context.
func TokenRequests(info *storagev1.CSIDriver, use Use) (requests []TokenRequest, inSecrets bool) {
	if info == nil || use.ID.Mode == Block { // a kubelet gives block volumes none
		return nil, false
	}
	for _, r := range info.Spec.TokenRequests {
		requests = append(requests, TokenRequest{Audience: r.Audience, ExpiresIn: r.ExpirationSeconds})
	}
	return requests, info.Spec.ServiceAccountTokenInSecrets != nil && *info.Spec.ServiceAccountTokenInSecrets
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// Ownership is what the files of a volume must have after its publication.
type Ownership struct {
	Group int64
	// OnlyOnMismatch leaves the files alone if the root folder has the group and the mode.
	OnlyOnMismatch bool
}

// OwnershipOf returns what the node sets itself (5.6); ok is false for nothing.
//
//nolint:gocyclo // the table of the specification, row by row
func (s Snapshot) OwnershipOf(use Use) (o Ownership, ok bool, err error) {
	group := fsGroup(use.Pod)
	if group == nil || use.ID.Mode == Block || use.ReadOnly || s.Driver.MountGroup {
		return Ownership{}, false, nil
	}
	change := use.Pod.Spec.SecurityContext.FSGroupChangePolicy
	o = Ownership{Group: *group, OnlyOnMismatch: change != nil && *change == corev1.FSGroupChangeOnRootMismatch}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if s.Info != nil {
		if s.Info.Spec.FSGroupPolicy == nil || *s.Info.Spec.FSGroupPolicy == "" {
			return Ownership{}, false, fmt.Errorf("CSIDriver %s: spec.fsGroupPolicy is not set", s.Info.Name)
		}
		policy = *s.Info.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return Ownership{}, false, nil
	case storagev1.FileFSGroupPolicy:
		return o, true, nil
	case storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy:
	}
	if use.PV == nil {
		return o, use.Inline.FSType != nil && *use.Inline.FSType != "", nil
	}
	modes := use.PV.Spec.AccessModes
	once := slices.Contains(modes, corev1.ReadWriteOnce) || slices.Contains(modes, corev1.ReadWriteOncePod)
	return o, use.PV.Spec.CSI.FSType != "" && once, nil
}

// Mode bits that the group must have (5.6, ND-4).
const (
	groupReadWrite = 0o660
	groupExecute   = 0o110
	setGroupID     = 0o2000
)

// Kind is what a file is, as far as its mode is concerned.
type Kind int

// The kinds.
const (
	File Kind = iota
	Folder
)

// FileMode returns the mode of a file with the bits added that the group needs. mode has permission
// bits and those of chmod(2) for set-user-ID, set-group-ID and sticky.
func FileMode(mode uint32, kind Kind) uint32 {
	mode |= groupReadWrite
	if kind == Folder {
		mode |= groupExecute | setGroupID
	}
	return mode
}

// IsOwned reports whether the root folder of a volume has the group and the mode already.
func (o Ownership) IsOwned(gid, mode uint32) bool {
	return int64(gid) == o.Group && mode == FileMode(mode, Folder)
}
