// Package driver is the CSI plugin: the Identity, Controller and Node services
// of the CSI spec (v1.13) over one storage backend.
//
// It decides what a request means: which fields are valid, which operation may
// run now, whether a repeated request is the same, where a volume may be
// published, and which gRPC code an error is. Where volumes are kept is the
// backend's business (package backend), how they appear at a path that of
// package mount.
//
// A call passes four layers, each in files of its own:
//
//	observe, recover, toStatus   interceptors: log, count, panics, gRPC codes
//	identityServer, controllerServer, nodeServer, groupServer, surveyServer
//	                             parse the message, claim the volume
//	controllerService, nodeService
//	                             the rules; typed values, no locks, no gRPC
//	backend, records, mount      effects
//
// An error gets its gRPC code in toStatus and nowhere else.
//
// [InFlight] knows which operation runs on which object, and decides whether another may start now. It
// never waits: the CSI spec asks for ABORTED while another operation is pending ("Error Scheme"), so the
// caller gets an answer at once that says what is running and for how long.
//
// The package must not know Kubernetes objects, flags or other roles.
package driver
