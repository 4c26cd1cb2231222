// Package explained checks that explain has a whole answer for each object that a scenario leaves: no
// "cannot tell", and for what is stuck a reason that has a page, what it waits for, and what to do. The
// properties of test/explain/properties hold too, and the API server refuses no command of the advice.
//
// It must not know which answer is right: that is test/explain's work.
package explained
