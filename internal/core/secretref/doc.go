// Package secretref decides which secrets a StorageClass refers to, for one volume. A reference is
// a namespace and a name: the values of a secret are never seen here.
//
// A class names the secret of each kind of call by a pair of parameters, which may hold templates.
// What a template may use is the line between the two parties: the namespace comes from the class
// and from where the claim is, so that a user cannot point at a namespace of another user; the name
// may also use the claim's name and annotations.
//
// It must not know of volumes, requests or clients. The facts are in docs/rows.md section 5.5.
package secretref
