// Package sim runs the real controllers under virtual time on an API server in memory (apiserver)
// and a scripted driver (csidriver), and sweeps over everything that may go wrong: a crash at every
// write and every call, writes that arrive late, lost answers, caches that lag or are frozen, two
// leaders of which one has a stale cache, and answers of the driver.
//
// A cast is the set of processes of a run. In one half of the sweep the provisioner is under test,
// with a model of the stock controllers (neighbours). In the other half it is the binder and the
// protection controllers, with another provisioner, or with ours in one process or in two.
//
// A workload is a sequence of user actions. A schedule is a set of faults. After them the watches
// heal, and when nothing happens any more the invariants are checked: those of the final state
// (invariants_test.go, binding_invariants_test.go), those after every change (chronicle_test.go),
// and that the decision tables find no action left to do (binding_oracle_test.go). A deliberately
// broken controller, a mutant, must be caught by them; that is what makes a clean sweep worth
// something.
package sim
