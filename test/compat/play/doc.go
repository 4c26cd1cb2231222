// Package play takes the steps of a scenario on a real API server: it acts as the user who creates
// claims and volumes, and as the external provisioner.
//
// It must not know which controllers run, nor judge the outcome.
package play
