// Package daytwo has the decisions of the commands for the time after the first day: how full
// volumes are, which objects nothing refers to, how a StatefulSet gets larger claims, which claims
// are unused, and what a check of a class has shown; and how each is printed.
//
// It must not read a cluster, a clock or a file.
package daytwo
