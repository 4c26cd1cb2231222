// Package containers makes the image that the pods of tests with a real kubelet run: a few files
// around one static program, without a registry.
package containers
