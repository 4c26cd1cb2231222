// Package rolestest has the helpers that the tests of several roles share: a real API server, the
// built-in driver, a log in memory, and a wait for a condition.
package rolestest
