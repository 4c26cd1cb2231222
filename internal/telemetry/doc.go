// Package telemetry defines the metrics and the log keys.
//
// It does not decide when something is measured or logged.
package telemetry
