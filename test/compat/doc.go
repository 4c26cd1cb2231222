// Command compat plays the same scenarios on the volume controllers of kube-controller-manager and
// on ours, each with an etcd and a kube-apiserver of its own, and compares the final objects and
// their events.
//
// A scenario is a text file below scenarios; the package scenario says what may stand in it. A
// difference of ours counts as worse unless differences.yaml names it and the documentation
// explains it.
//
// Its tests play a part of the scenarios, and random histories to ours alone for 20 seconds;
// RANDOM_TIME=10m makes that ten minutes. A user's writes to two objects while a controller writes
// one of them can violate an invariant without a mistake of the controller: the package invariant
// allows for that.
package main
