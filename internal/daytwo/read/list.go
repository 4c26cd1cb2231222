package read

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lister lists kinds one after the other, and notes those that it may not read. The first other
// error ends it.
type lister struct {
	from      client.Reader
	namespace string            // empty for all
	missing   map[string]string // kinds that were not read, and why
	err       error
}

// list reads all objects of a kind into a list. Of a kind that the API server does not serve there
// are none.
func (l *lister) list(ctx context.Context, kind string, into client.ObjectList, isNamespaced bool) {
	if l.err != nil {
		return
	}
	var opts []client.ListOption
	if isNamespaced && l.namespace != "" {
		opts = append(opts, client.InNamespace(l.namespace))
	}
	err := l.from.List(ctx, into, opts...)
	switch {
	case err == nil, meta.IsNoMatchError(err), apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err):
		l.missing[kind] = "the permission to list them is missing"
	default:
		l.err = fmt.Errorf("list %s: %w", kind, err)
	}
}

// unread returns the kinds that were not read, as sentences.
func (l *lister) unread() (texts []string) {
	for kind, why := range l.missing {
		texts = append(texts, kind+": "+why)
	}
	return texts
}
