// Package capacity measures how storage capacities are published for thousands of nodes without
// machines, by one provisioner at a time, of Purser and of upstream. For each it prints the time until
// every capacity is published, the requests by verb, the depth of the work queue over ten polls, and the
// memory.
package capacity
