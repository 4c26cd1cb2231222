// Package runner runs the workloads of the benchmarks: it starts an API server with an audit log and
// serves the scripted driver, starts and kills the programs of the contenders in rounds, and counts
// their requests, processor time and memory. It must not know what is measured.
package runner
