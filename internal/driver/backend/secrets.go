package backend

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Secrets are the csi_secret fields of one request. They print as their keys,
// so that no log and no error can hold a value.
type Secrets struct{ values map[string]string }

// NewSecrets keeps a copy.
func NewSecrets(values map[string]string) Secrets { return Secrets{maps.Clone(values)} }

// Get gives the value of a key, "" when there is none.
func (s Secrets) Get(key string) string { return s.values[key] }

// Keys lists what there is, in order.
func (s Secrets) Keys() []string { return slices.Sorted(maps.Keys(s.values)) }

// String lists the keys.
func (s Secrets) String() string { return "secrets(" + strings.Join(s.Keys(), " ") + ")" }

// GoString is String: %#v must not show values either.
func (s Secrets) GoString() string { return s.String() }

type secretsKey struct{}

// WithSecrets gives the secrets of a request to the backend. They travel in
// the context, because nearly every call may have some and only backends
// elsewhere need any.
func WithSecrets(ctx context.Context, s Secrets) context.Context {
	return context.WithValue(ctx, secretsKey{}, s)
}

// SecretsOf gives the secrets of the request that ctx belongs to; none when it
// had none.
func SecretsOf(ctx context.Context) Secrets {
	s, _ := ctx.Value(secretsKey{}).(Secrets)
	return s
}
