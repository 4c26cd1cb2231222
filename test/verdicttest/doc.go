// Package verdicttest formats verdicts as short texts, for tables of tests.
package verdicttest
