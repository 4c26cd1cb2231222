// Package backend has the interfaces between the driver and a storage backend, and their types.
//
// It decides what a volume id may look like and what a capability means. A
// backend implements Backend, and each optional interface of features.go
// whose feature it has: the driver advertises the CSI capability exactly then
// and answers UNIMPLEMENTED otherwise. So a new feature is one new interface,
// and no backend has to say "no" in code.
//
// The driver's side of the contract:
//   - it calls Create, Delete and what a feature changes for one volume at a
//     time, and a Create only after Get said that the volume does not exist;
//   - it compares an existing volume with a repeated request itself, so that
//     idempotency is the same in every backend;
//   - it never deletes a volume that is published on this node.
//
// A backend must not know gRPC, CSI messages, target paths or Kubernetes. Its
// errors carry a kind (package fault).
package backend
