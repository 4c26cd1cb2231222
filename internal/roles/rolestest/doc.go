// Package rolestest has what the tests of several roles need: a real API server, the built-in
// driver, a log that is kept, and a wait for a condition.
package rolestest
