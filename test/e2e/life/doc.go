// Package life runs a volume through all its steps on a real cluster, from the claim to the
// deletion of its data. The demo prints the steps, and the tests check them.
package life
