// Package sim runs the real controllers under virtual time on an API server in memory (apiserver)
// and a scripted driver (csidriver), and sweeps over everything that may go wrong: a crash at every
// write and every call, writes that arrive late, lost answers, caches that lag or stand still, two
// leaders of which one is behind, and answers of the driver.
//
// Who plays is a cast. In one half of the sweep the provisioner is under test, beside a model of
// the stock controllers (neighbours); in the other half it is the binder and the guards, beside a
// provisioner of another client, or beside ours, in one process with it or in two.
//
// A workload is what people do. A schedule is what goes wrong. After it the world heals, settles,
// and the invariants must hold: those of the end (invariants_test.go, binding_invariants_test.go),
// those of every moment on the way there (chronicle_test.go), and that the decision tables, looked
// up in the world as it is, find nothing left to do (binding_oracle_test.go). A deliberately broken
// controller, a mutant, must be caught by them; that is what makes a clean sweep worth something.
package sim
