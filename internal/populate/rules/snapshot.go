package populate

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	source "github.com/purser-csi/purser/internal/sources/rules"
)

// Settings are those of one populator.
type Settings struct {
	Namespace string           // of the prime claims and the pods
	Prefix    string           // before the names of the finalizer, the annotations and the label (VP-3)
	Kind      schema.GroupKind // of the sources
	// CrossNamespace says that sources in other namespaces are served, if a ReferenceGrant allows it (VP-6).
	CrossNamespace bool
	// RetryFirst and RetryMost bound the delay between a failed pod and the next one (VP-H2).
	RetryFirst, RetryMost time.Duration
}

// Finalizer returns the finalizer on the user's claim (VP-3).
func (s Settings) Finalizer() string { return s.Prefix + "/populate-target-protection" }

// PopulatedFrom returns the annotation on the volume that names its source (VP-3).
func (s Settings) PopulatedFrom() string { return s.Prefix + "/populated-from" }

// Label returns the label of prime claims and pods. Its value is the uid of the user's claim.
func (s Settings) Label() string { return s.Prefix + "/claim-uid" }

// ClaimAnnotation returns the annotation of prime claims and pods that has the user's claim, as
// NAMESPACE/NAME.
func (s Settings) ClaimAnnotation() string { return s.Prefix + "/claim" }

// NodeAnnotation returns the annotation of a prime claim with the node that was copied from the user's claim
// last.
func (s Settings) NodeAnnotation() string { return s.Prefix + "/copied-node" }

// AttemptsAnnotation returns the annotation with a number of failed pods: of a prime claim all of them, of a
// pod those before it.
func (s Settings) AttemptsAnnotation() string { return s.Prefix + "/failed-attempts" }

// PrimeName returns the name of the prime claim for a claim (VP-2).
func PrimeName(claim types.UID) string { return PrimePrefix + string(claim) }

// PrimePrefix is before the uid in the name of a prime claim.
const PrimePrefix = "prime-"

// PodName returns the name of the pod for a claim (VP-2).
func PodName(claim types.UID) string { return "populate-" + string(claim) }

// Snapshot has the inputs of a decision about one claim.
type Snapshot struct {
	Settings

	UID    types.UID                     // of the user's claim
	Claim  *corev1.PersistentVolumeClaim // the user's; nil: gone, or another object has its name
	Prime  *corev1.PersistentVolumeClaim // the object with the name of the prime claim
	Volume *corev1.PersistentVolume      // that the prime claim names, or that names the user's claim
	Pod    *corev1.Pod                   // the object with the name of the pod
	Class  *storagev1.StorageClass       // of the user's claim
	Source Source

	IsLive    bool                          // LiveClaim is read
	LiveClaim *corev1.PersistentVolumeClaim // the user's claim, read live; nil if it is gone
	HasGrants bool                          // Grants are read
	Grants    []source.Grant                // in the namespace of the source

	Progress *Progress // that the pod says; nil if it says none
	Outcome  *Outcome  // of a pod that ended
}

// Source is what the populator says about the source of the claim.
type Source struct {
	Found   bool
	Problem string // why no pod can be made from it; empty for nothing
	Fix     string // of the problem
}

// Progress is how much of the data is written, in bytes.
type Progress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"` // 0 or less if it is not known
	// Again is how much of Done an attempt has read again to continue behind it; 0 while it continues.
	Again int64 `json:"again,omitempty"`
}

// Outcome is how a pod ended.
type Outcome struct {
	Message string
	At      time.Time
	Written int64 // bytes
}

// What a decision reads: see [verdict.Ref].
const (
	ReadClaim  = "live claim"
	ReadGrants = "ReferenceGrants"
)

// SourceOf returns the source of a claim, if it is one of this populator (VP-5).
func (s Settings) SourceOf(claim *corev1.PersistentVolumeClaim) (ref source.Ref, isOurs bool) {
	if claim == nil || claim.Spec.DataSourceRef == nil || claim.Namespace == s.Namespace {
		return ref, false
	}
	ref.Kind, ref.Name, ref.Namespace = claim.Spec.DataSourceRef.Kind, claim.Spec.DataSourceRef.Name, claim.Namespace
	if group := claim.Spec.DataSourceRef.APIGroup; group != nil {
		ref.Group = *group
	}
	if in := claim.Spec.DataSourceRef.Namespace; in != nil && *in != "" {
		ref.Namespace = *in
	}
	return ref, ref.Name != "" && ref.Group == s.Kind.Group && ref.Kind == s.Kind.Kind
}

// ClaimOf returns the user's claim of a prime claim or of a pod; false for an object that is neither.
func (s Settings) ClaimOf(o Marked) (name types.NamespacedName, uid types.UID, is bool) {
	uid = types.UID(o.GetLabels()[s.Label()])
	for at, letter := range o.GetAnnotations()[s.ClaimAnnotation()] {
		if letter == '/' {
			text := o.GetAnnotations()[s.ClaimAnnotation()]
			name = types.NamespacedName{Namespace: text[:at], Name: text[at+1:]}
			break
		}
	}
	return name, uid, uid != "" && name.Name != "" && o.GetNamespace() == s.Namespace
}

// Marked is an object with labels and annotations.
type Marked interface {
	GetNamespace() string
	GetLabels() map[string]string
	GetAnnotations() map[string]string
}
