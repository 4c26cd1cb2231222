// Command compat plays the same scenarios to the volume controllers of kube-controller-manager and
// to ours, each on an etcd and a kube-apiserver of its own, and compares what becomes of the
// objects and which events are told about them.
//
// A scenario is a text file below scenarios; the package scenario says what may stand in it. What
// ours does differently is worse unless differences.yaml names it and the documentation explains
// it.
//
// Its tests play a part of the scenarios, and random histories to ours alone for 20 seconds;
// RANDOM_TIME=10m makes that ten minutes. What people do to two objects at the moment when
// controllers write one of them is theirs: the package invariant knows of it.
package main
