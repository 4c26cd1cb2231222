// Package play takes the steps of a scenario on a real API server: it is the person who makes
// claims and volumes, and the external provisioner that makes and deletes volumes when it is asked.
//
// It must not know whose controllers answer, nor judge the outcome.
package play
