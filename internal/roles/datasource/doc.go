// Package datasource is the role volume-data-source-validator, the drop-in for upstream's program: its
// flags, its lease and its permissions. What it checks is in internal/datasource; it must not know how.
package datasource
