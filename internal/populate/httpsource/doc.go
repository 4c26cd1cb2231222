// Package httpsource is the populator of HTTPSource objects: it fills a volume from an http or https URL, or
// from a layer of an OCI image. [Populator] says how an object becomes a pod, and [Write] runs in it.
//
// It must not know claims, volumes of the API or their states: internal/populate has these.
//
// # What the pod trusts
//
// The URL is the user's, and the pod runs in the namespace of the populator. It connects to no loopback
// or link-local address and to no metadata service of a cloud, follows few redirects and none from
// https to http, and sends the headers of a secret only to the hosts that the secret names, for claims
// of the namespaces that it names. A registry that the secret does not name gets no token for the
// headers either.
package httpsource
