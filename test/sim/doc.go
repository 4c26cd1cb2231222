// Package sim runs the real controllers under virtual time on an API server in memory (apiserver) and a scripted driver
// (csidriver), beside a model of the stock controllers (neighbours), and sweeps over everything that may go wrong: a crash at
// every write and every call, lost answers, caches that lag or stand still, two leaders, and answers of the driver.
//
// A workload is what people do. A schedule is what goes wrong. After it the world heals, settles, and the invariants of
// invariants_test.go must hold. A deliberately broken controller, a mutant, must be caught by them; that is what makes a
// clean sweep worth something.
package sim
