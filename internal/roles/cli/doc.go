// Package cli is the command line of the roles: flags in groups with a help page of 80 columns, all
// mistakes of a command line in one error, warnings about flags that older versions had, and the
// exit codes of upstream. It knows no role and starts nothing.
package cli
