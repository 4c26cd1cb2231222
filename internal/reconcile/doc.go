// Package reconcile runs gather, decide, apply for one key: it turns a verdict into what happens
// next (nothing, a requeue at a time, a retry with a growing delay), and writes one log line, one
// metric and at most one event per decision.
//
// It must not know any kind of object, nor hold a rule about one.
package reconcile
