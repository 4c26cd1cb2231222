// Package roles turns flags into validated configuration and configuration into a running role. It is the only place that
// knows every other room.
//
// Each role is a struct with three methods: flags fill it, Validate lists every mistake at once, Run works until its context
// ends. Failures are errors that travel up to main; nothing here ends the process.
package roles
