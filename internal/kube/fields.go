package kube

import (
	"reflect"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// Fields says which fields of a kind a controller reads.
type Fields struct {
	kind        reflect.Type
	keep        func(from, to any)
	isWhole     func(any) bool // may be nil
	annotations []string
}

// Reads returns Fields whose keep function copies fields from the whole object to the cached one,
// which may hold already what other Fields keep. The annotations and the identity of an object are
// not its concern: namespace, name, uid, resourceVersion and the time of deletion are copied
// already. The copy may share memory with the whole object.
func Reads[T any](keep func(from, to *T), annotations ...string) *Fields {
	return &Fields{
		kind:        reflect.TypeFor[*T](),
		keep:        func(from, to any) { keep(from.(*T), to.(*T)) },
		annotations: annotations,
	}
}

// whole returns the Fields with a rule: an object for which it returns true loses only its
// managedFields.
func whole[T any](rule func(*T) bool, f *Fields) *Fields {
	f.isWhole = func(in any) bool { return rule(in.(*T)) }
	return f
}

// Whole returns Fields that keep an object of a kind except for its managedFields.
func Whole[T any]() *Fields {
	return whole(func(*T) bool { return true }, Reads(func(_, _ *T) {}))
}

// TrimTo returns a cache transform that keeps only the given fields. Objects of kinds without
// [Fields] go through [Trim], and its restrictions apply: use patches, and change only deep copies.
func TrimTo(fields []*Fields) toolscache.TransformFunc {
	byKind := map[reflect.Type][]*Fields{}
	annotations := map[reflect.Type][]string{}
	for _, f := range fields {
		if annotations[f.kind] == nil {
			annotations[f.kind] = []string{names.AnnTraceParent} // of every object that has one
		}
		if slices.Contains(byKind[f.kind], f) { // several controllers read the same
			continue
		}
		byKind[f.kind] = append(byKind[f.kind], f)
		for _, name := range f.annotations {
			if !slices.Contains(annotations[f.kind], name) {
				annotations[f.kind] = append(annotations[f.kind], name)
			}
		}
	}
	return func(in any) (any, error) {
		kind := reflect.TypeOf(in)
		from, isObject := in.(client.Object)
		if !isObject || byKind[kind] == nil {
			return Trim(in)
		}
		if slices.ContainsFunc(byKind[kind], func(f *Fields) bool { return f.isWhole != nil && f.isWhole(in) }) {
			from.SetManagedFields(nil)
			return in, nil
		}
		to := reflect.New(kind.Elem()).Interface().(client.Object)
		copyIdentity(from, to)
		to.SetAnnotations(sharedPart(from.GetAnnotations(), annotations[kind]))
		for _, f := range byKind[kind] {
			f.keep(from, to)
		}
		return to, nil
	}
}

// copyIdentity copies what every controller reads of an object's metadata.
func copyIdentity(from, to client.Object) {
	to.SetNamespace(shared(from.GetNamespace()))
	to.SetName(from.GetName())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetDeletionTimestamp(from.GetDeletionTimestamp())
	to.SetDeletionGracePeriodSeconds(from.GetDeletionGracePeriodSeconds())
}
