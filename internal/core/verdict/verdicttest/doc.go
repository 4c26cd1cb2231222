// Package verdicttest writes verdicts as short texts, for tables of tests. It must not know what
// any verdict is about.
package verdicttest
