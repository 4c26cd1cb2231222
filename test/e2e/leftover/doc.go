// Package leftover finds what an `up` left behind on the machine: processes and mounts. It reads
// /proc by itself, so that it does not believe the code that it checks.
package leftover
