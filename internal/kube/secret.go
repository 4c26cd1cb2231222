package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretValues reads the values of a secret, and its version. They must be asked of the API server
// and never of a cache, which would hold every secret of the cluster in memory, and for which
// upstream's role has no permission (RB-8).
func SecretValues(
	ctx context.Context,
	live client.Reader,
	ref types.NamespacedName,
) (map[string]string, string, error) {
	var secret corev1.Secret
	if err := live.Get(unlogged(ctx), ref, &secret); err != nil {
		return nil, "", err
	}
	values := make(map[string]string, len(secret.Data))
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if !utf8.Valid(secret.Data[key]) {
			return nil, "", UnfitSecretError{Secret: ref, Key: key}
		}
		values[key] = string(secret.Data[key])
	}
	return values, secret.ResourceVersion, nil
}

// ReadSecret returns a function that is [SecretValues] without the version, for callers of the
// driver.
func ReadSecret(live client.Reader) func(context.Context, types.NamespacedName) (map[string]string, error) {
	return func(ctx context.Context, ref types.NamespacedName) (map[string]string, error) {
		values, _, err := SecretValues(ctx, live, ref)
		return values, err
	}
}

// UnfitSecretError is a secret with a value that no call can carry. gRPC would say so without
// naming either, and as if the driver had.
type UnfitSecretError struct {
	Secret types.NamespacedName
	Key    string
}

func (e UnfitSecretError) Error() string {
	return fmt.Sprintf(
		"secret %q: the value of the key %q is not UTF-8 text, and a call to the driver can carry nothing else",
		e.Secret,
		e.Key,
	)
}

// SecretVersion is the version of a secret. The API server is asked for the metadata only, so no
// value comes near this process.
func SecretVersion(ctx context.Context, live client.Reader, ref types.NamespacedName) (string, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := live.Get(unlogged(ctx), ref, secret)
	return secret.ResourceVersion, err
}

// unlogged keeps requests and answers out of the log, where client-go puts them whole at --v=8. The
// metadata of a secret is no better than the rest of it: kubectl apply notes the values there
// (R-59, U-48).
func unlogged(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }
