// Package explain is the commands explain, tree and dump: they read a cluster or a dump of one, and
// print what core/explain decides.
//
// It must not judge an object: every sentence about one comes from core/explain.
package explain
