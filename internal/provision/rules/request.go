package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// NewRequest returns the CreateVolume request without secrets, or why it cannot be built.
func NewRequest(s Snapshot) (*csi.CreateVolumeRequest, *verdict.Finding) {
	request, _, finding := build(s)
	return request, finding
}

// build returns the CreateVolume request without secrets and the references of all secrets, in the order
// of the checks C-55 to C-63.
func build(s Snapshot) (*csi.CreateVolumeRequest, secretref.Set, *verdict.Finding) {
	none := secretref.Set{}
	if s.Claim.Spec.Selector != nil { // C-55
		return nil, none, invalidClaim(
			"spec.selector", "a selector", "dynamically provisioned volumes cannot be selected by label; remove it",
		)
	}
	fsType, finding := fsType(s)
	if finding != nil {
		return nil, none, finding
	}
	capabilities, finding := volumeCapabilities(s, fsType)
	if finding != nil {
		return nil, none, finding
	}
	bytes, finding := requestedBytes(s)
	if finding != nil {
		return nil, none, finding
	}
	if finding := checkMinimumSize(s, fsType, bytes); finding != nil {
		return nil, none, finding
	}
	content, finding := contentSource(s)
	if finding != nil {
		return nil, none, finding
	}
	requirement, finding := accessibility(s)
	if finding != nil {
		return nil, none, finding
	}
	secrets, finding := newSecrets(s) // C-62
	if finding != nil {
		return nil, none, finding
	}
	parameters, finding := parameters(s)
	if finding != nil {
		return nil, none, finding
	}
	mutable, finding := mutableParameters(s)
	if finding != nil {
		return nil, none, finding
	}
	return &csi.CreateVolumeRequest{
		Name:                      volumeName(s),
		CapacityRange:             &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities:        capabilities,
		Parameters:                parameters,
		VolumeContentSource:       content,
		AccessibilityRequirements: requirement,
		MutableParameters:         mutable,
	}, secrets, nil
}

// volumeCapabilities returns one capability per access mode of the claim, in its order.
func volumeCapabilities(s Snapshot, fsType string) ([]*csi.VolumeCapability, *verdict.Finding) {
	capabilities := make([]*csi.VolumeCapability, 0, len(s.Claim.Spec.AccessModes))
	for _, mode := range s.Claim.Spec.AccessModes {
		m, finding := accessMode(mode, s.Driver.MultiWriters)
		if finding != nil {
			return nil, finding
		}
		c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: m}}
		if isBlock(s.Claim) {
			c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		} else {
			c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
				FsType: fsType, MountFlags: slices.Clone(s.Class.MountOptions),
			}}
		}
		capabilities = append(capabilities, c)
	}
	return capabilities, nil
}

// accessMode maps one access mode. With SINGLE_NODE_MULTI_WRITER the driver distinguishes
// ReadWriteOnce from ReadWriteOncePod.
func accessMode(
	mode corev1.PersistentVolumeAccessMode, multiWriters bool,
) (csi.VolumeCapability_AccessMode_Mode, *verdict.Finding) {
	switch mode {
	case corev1.ReadWriteOnce:
		if multiWriters {
			return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, nil
		}
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	case corev1.ReadWriteOncePod:
		if multiWriters {
			return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, nil
		}
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	case corev1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, nil
	case corev1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, nil
	}
	return 0, invalidClaim("spec.accessModes", fmt.Sprintf("%q", mode),
		"use ReadWriteOnce, ReadWriteOncePod, ReadOnlyMany or ReadWriteMany")
}

// fsType returns the filesystem that the class names. The deprecated key matches in any case, and
// is still passed to the driver.
func fsType(s Snapshot) (string, *verdict.Finding) {
	found, hits := "", []string{}
	for _, key := range slices.Sorted(maps.Keys(s.Class.Parameters)) {
		if key == names.ParameterFSType || strings.EqualFold(key, "fstype") {
			found = s.Class.Parameters[key]
			hits = append(hits, key)
		}
	}
	if len(hits) > 1 { // C-57
		return "", invalidClass(
			s, strings.Join(hits, " and "), "both name a filesystem", "Keep only "+names.ParameterFSType,
		)
	}
	if found == "" {
		found = s.Options.DefaultFSType
	}
	return found, nil
}

// OutdatedKeys returns the deprecated parameters of a class, which still work, each with its
// replacement.
func OutdatedKeys(class *storagev1.StorageClass) map[string]string {
	outdated, older := map[string]string{}, secretref.Older()
	for key := range class.Parameters {
		if now := older[key]; now != "" {
			outdated[key] = now
		} else if strings.EqualFold(key, "fstype") {
			outdated[key] = names.ParameterFSType
		}
	}
	return outdated
}

// known are the parameters that only the provisioner reads.
var known = append([]string{names.ParameterFSType, names.OwnParameterMinimumSize}, secretref.Known()...)

// parameters returns the parameters of the class without those of the provisioner. The class
// is not changed.
func parameters(s Snapshot) (map[string]string, *verdict.Finding) {
	out := make(map[string]string, len(s.Class.Parameters))
	for _, key := range slices.Sorted(maps.Keys(s.Class.Parameters)) {
		switch {
		case slices.Contains(known, key):
		case strings.HasPrefix(key, names.ParameterPrefix), strings.HasPrefix(key, names.OwnParameterPrefix):
			prefix, _, _ := strings.Cut(key, "/")
			return nil, invalidClass(s, key, "the prefix "+prefix+"/ is reserved and this key is not known",
				"Known are "+strings.Join(known, ", ")) // C-63, U-43
		default:
			out[key] = s.Class.Parameters[key]
		}
	}
	if s.Options.ExtraCreateMetadata {
		out[names.ParameterPVCName] = s.Key.Name
		out[names.ParameterPVCNamespace] = s.Key.Namespace
		out[names.ParameterPVName] = volumeName(s)
	}
	return out, addMetadata(s, out)
}

// Inputs returns a digest of everything that a request is built from: a change of it ends the
// backoff (H-43).
func Inputs(s Snapshot) string { return inputs(s, nil) }

// inputs is [Inputs] with the request that the decision has built already; nil for none.
func inputs(s Snapshot, made *draft) string {
	if s.Claim == nil {
		return ""
	}
	if s.Class == nil {
		return edits(s.Claim)
	}
	digest := sha256.New()
	fmt.Fprint(digest, s.Class.UID, Provisioner(s.Claim), objects.ClaimClass(s.Claim), s.Class.AllowedTopologies)
	if made == nil {
		made = newDraft(s)
	}
	if made.finding == nil {
		raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(made.entry.Request)
		digest.Write(raw)
		fmt.Fprint(digest, made.entry.Secrets.Text(), " ", s.Secret.Access, s.Secret.Version)
	} else {
		fmt.Fprint(digest, made.finding.Text())
	}
	return hex.EncodeToString(digest.Sum(nil)) + edits(s.Claim)
}

func isBlock(claim *corev1.PersistentVolumeClaim) bool {
	return objects.IsBlock(claim.Spec.VolumeMode)
}

func invalidClaim(field, value, fix string) *verdict.Finding {
	return &verdict.Finding{
		Reason:  verdict.ClaimInvalid,
		Message: fmt.Sprintf("claim %s: %s is not supported", field, value),
		Fix:     fix,
	}
}

func invalidClass(s Snapshot, key, problem, fix string) *verdict.Finding {
	return &verdict.Finding{
		Reason:  verdict.ClassInvalid,
		Message: fmt.Sprintf("StorageClass %q parameter %s: %s", s.Class.Name, key, problem),
		Fix:     fix,
	}
}
