package kube

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/names"
)

// ForeignBinders configures [DetectForeignBinders].
type ForeignBinders struct {
	Manager string    // the field manager of this process
	Since   time.Time // writes before this are ignored
	// Found is called once for each other field manager that has bound a claim. Users can invent
	// field managers, so after the first [mostManagers] all further ones are reported as
	// [OtherManagers].
	Found func(manager, claim string)
}

// DetectForeignBinders returns a cache transform that detects another controller that binds claims,
// while the object still has its managedFields, and then applies the inner transform.
func DetectForeignBinders(config ForeignBinders, inner toolscache.TransformFunc) toolscache.TransformFunc {
	foreign := &foreignBinders{config: config, reported: map[string]bool{}}
	return func(in any) (any, error) {
		if claim, ok := in.(*corev1.PersistentVolumeClaim); ok {
			foreign.look(claim)
		}
		return inner(in)
	}
}

// foreignBinders detects another controller that binds claims. Two binders in a cluster conflict on
// each claim and emit each event twice.
type foreignBinders struct {
	config   ForeignBinders
	mu       sync.Mutex
	reported map[string]bool
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
	for i := range claim.ManagedFields {
		entry := &claim.ManagedFields[i]
		if entry.Manager != f.config.Manager && f.wrote(claim, entry) {
			f.report(entry.Manager, claim.Namespace+"/"+claim.Name)
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

func (f *foreignBinders) report(manager, claim string) {
	f.mu.Lock()
	if !f.reported[manager] && len(f.reported) >= mostManagers {
		manager = OtherManagers
	}
	first := !f.reported[manager]
	f.reported[strings.Clone(manager)] = true
	f.mu.Unlock()
	if first {
		f.config.Found(manager, claim)
	}
}
