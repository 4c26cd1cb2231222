package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// The version is asked for until the API server answers; a refusal is an answer.
func TestAwaitVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		got, err := awaitVersion(t.Context(), func() (*apiversion.Info, error) {
			if asked++; asked < 4 {
				return nil, errors.New("connection refused")
			}
			return &apiversion.Info{GitVersion: "v1.37.2"}, nil
		})
		if err != nil || got.String() != "1.37" || asked != 4 {
			t.Errorf("%v, %v after %d requests", got, err, asked)
		}
		forbidden := func() (*apiversion.Info, error) {
			return nil, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no role"))
		}
		if got, err = awaitVersion(t.Context(), forbidden); got != nil || err != nil {
			t.Errorf("a server that refuses: %v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err = awaitVersion(ctx, func() (*apiversion.Info, error) { cancel(); return nil, errors.New("gone") })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the end of the process: %v", err)
		}
	})
}
