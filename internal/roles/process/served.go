package process

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// servedEvery is how often discovery is read for custom resources that are not installed yet.
const servedEvery = 10 * time.Second

// WhenServed runs start once the API server serves all kinds, which may be long after the start of
// the process: custom resources are installed at any time (SN-H20).
func WhenServed(mgr manager.Manager, kinds []schema.GroupVersionKind, start func(context.Context) error) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for !areServed(mgr.GetRESTMapper(), kinds) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(servedEvery):
			}
		}
		return start(ctx)
	}))
}

// areServed reports whether the API server serves all kinds. A failed discovery request counts as
// no.
func areServed(mapper meta.RESTMapper, kinds []schema.GroupVersionKind) bool {
	for _, kind := range kinds {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return false
		}
	}
	return true
}
