// Package explain is the commands explain, tree and dump: they read a cluster or a dump of one, and
// print what internal/explain/rules decides.
//
// It must not judge an object: every sentence about one comes from internal/explain/rules.
package explain
