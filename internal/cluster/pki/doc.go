// Package pki keeps the certificates of a development cluster in a folder.
//
// It decides when a certificate on disk can still be used and when it is issued again: damaged, for
// another subject, signed by another authority, or near its end. Keeping them is what keeps a
// kubeconfig valid across a restart.
//
// It must not know the users of a certificate, any address, or the time.
package pki
