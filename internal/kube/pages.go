package kube

import (
	"context"
	"iter"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PageSize bounds the memory of one LIST: objects a page.
const PageSize = 500

// Pages lists objects from the API server, [PageSize] at a time; newPage returns an empty list. All
// pages are of one resourceVersion. An error ends the sequence. The informer cache does not page:
// use its List.
func Pages[L client.ObjectList](
	ctx context.Context, live client.Reader, newPage func() L, opts ...client.ListOption,
) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		for next := ""; ; {
			page := newPage()
			paged := append([]client.ListOption{client.Limit(PageSize), client.Continue(next)}, opts...)
			if err := live.List(ctx, page, paged...); err != nil {
				yield(page, err)
				return
			}
			if !yield(page, nil) {
				return
			}
			if next = page.GetContinue(); next == "" {
				return
			}
		}
	}
}
