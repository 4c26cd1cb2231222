// Package secretref resolves the secrets that a StorageClass names for one volume. A reference is a
// namespace and a name; secret values are never read here.
//
// A class names the secret of each kind of call by a pair of parameters, which may be templates.
// The template tokens keep tenants apart: the namespace may depend only on the class, the volume's
// name and the claim's namespace, so that a user cannot name another user's namespace. The name may
// also depend on the claim's name and annotations.
//
// The package does not know volumes, requests or clients. The row IDs are explained in
// docs/spec/external-provisioner.md, section 5.5.
package secretref
