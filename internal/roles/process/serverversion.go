package process

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/roles/cli"
)

const (
	// versionTimeout is the deadline of one request for the version.
	versionTimeout = 10 * time.Second
	// versionRetry is the delay after a request that was not answered.
	versionRetry = time.Second
)

// ServerVersion returns the version of Kubernetes that the API server has. It waits for a server
// that does not answer yet, as the caches do. The version is nil if the server refuses to say it.
func ServerVersion(ctx context.Context, api *rest.Config) (*version.Version, error) {
	own := rest.CopyConfig(api)
	own.Timeout = versionTimeout
	client, err := discovery.NewDiscoveryClientForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("the version of the API server: %w", err)
	}
	return awaitVersion(ctx, client.ServerVersion)
}

// awaitVersion asks until there is an answer.
func awaitVersion(ctx context.Context, ask func() (*apiversion.Info, error)) (*version.Version, error) {
	log := logr.FromContextOrDiscard(ctx)
	for {
		info, err := ask()
		switch {
		case err == nil:
			v, err := cli.KubernetesVersion(*info)
			if err != nil {
				log.Info("features that depend on the version of the API server are off", "problem", err.Error())
			}
			return v, nil
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			log.Info("features that depend on the version of the API server are off, which does not say its version",
				"problem", err.Error())
			return nil, nil
		}
		log.Info("waiting for the API server to say its version", "problem", err.Error())
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(versionRetry):
		}
	}
}
