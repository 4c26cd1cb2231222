// Package explain holds situations in which claims, pods and volumes were stuck, each as a dump
// with the cause and the fix that `purser explain` must find.
//
// situations/ has YAML files of several documents. A document names the thread that it comes from,
// what is explained, and what must be found; its objects are added to those of base.yaml, in which
// everything is well, and take the place of objects with the same name.
package explain
