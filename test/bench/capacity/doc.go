// Command capacity measures how storage capacities are published: a scripted driver, thousands of
// nodes without machines, a real API server, and one provisioner at a time, of Purser and of
// upstream. For each it prints the time until every capacity is published, the requests by verb, the
// depth of the work queue over ten polls, and the memory.
package main
