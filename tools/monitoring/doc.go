// Package monitoring tests deploy/monitoring: each expression is one that Prometheus takes, about
// metrics, labels and reasons that a role has. It is a module of its own, since the parser of
// Prometheus brings many others.
package monitoring
