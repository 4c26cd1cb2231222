// Package sim runs the real controllers under virtual time on an API server in memory (apiserver)
// and a scripted driver (csidriver), and sweeps over everything that may go wrong: a crash at every
// write and every call, writes that arrive late, lost answers, caches that lag or are frozen, two
// leaders of which one has a stale cache, and answers of the driver.
//
// A processSet is the set of processes of a run. One part of the sweep tests the provisioner beside
// a model of the stock controllers (stockmodel). Another part tests the binder and the protection
// controllers, beside a model of another provisioner, or with our provisioner in the same or
// another process.
//
// A workload is a sequence of user actions. A schedule is a set of faults. After them the watches
// heal, and when nothing happens any more the invariants are checked: those of the final state
// (invariants_test.go, binding_invariants_test.go), those after every change (continuous_invariants_test.go),
// and that the decision tables find no action left to do (binding_oracle_test.go). Their IDs are rows
// of docs/spec/invariants.md. A deliberately broken controller, a mutant, must be caught by them;
// that is what makes a clean sweep worth something.
package sim
