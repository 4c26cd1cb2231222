package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/secretref"
)

// SecretValues reads the values of a secret and its resourceVersion. The read must be live: a cache
// would hold all secrets of the cluster, and needs permissions that upstream's role does not have
// (RB-8).
func SecretValues(
	ctx context.Context, live client.Reader, ref types.NamespacedName,
) (map[string]string, string, error) {
	var secret corev1.Secret
	if err := live.Get(unlogged(ctx), ref, &secret); err != nil {
		return nil, "", withRole(err, ref)
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

// withRole adds to the error of a forbidden read which Role allows it, as commands. The error itself names
// the account, the verb, the resource and the namespace.
func withRole(err error, ref types.NamespacedName) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	_, user, _ := secretref.Refused(err.Error())
	return fmt.Errorf("%w; to allow it: %s", err, secretref.PermitRead(ref, user))
}

// ReadSecret returns [SecretValues] without the resourceVersion, as a function.
func ReadSecret(live client.Reader) func(context.Context, types.NamespacedName) (map[string]string, error) {
	return func(ctx context.Context, ref types.NamespacedName) (map[string]string, error) {
		values, _, err := SecretValues(ctx, live, ref)
		return values, err
	}
}

// UnfitSecretError means that a secret has a value that is not UTF-8 and cannot be sent with gRPC.
// The error of gRPC names neither secret nor key, and looks like an error of the driver.
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

// SecretVersion returns the resourceVersion of a secret. It reads only the metadata.
func SecretVersion(ctx context.Context, live client.Reader, ref types.NamespacedName) (string, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := live.Get(unlogged(ctx), ref, secret)
	return secret.ResourceVersion, withRole(err, ref)
}

// unlogged returns a context with which client-go logs no request or response; at --v=8 it logs
// them whole. This is needed for the metadata of a secret too: kubectl apply writes the values into
// an annotation (R-59, U-48).
func unlogged(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }
