// Package grow gives the claims of a StatefulSet a larger size, and replaces the StatefulSet by one
// whose template has the size. The API server allows no change of volumeClaimTemplates, so the
// object is deleted without its pods and created again.
//
// The new object is kept in a Secret from before the deletion until the creation. If the process
// ends in between, a repeated command finds the Secret and goes on.
//
// It must not decide what is allowed: that is in internal/daytwo/rules.
package grow
