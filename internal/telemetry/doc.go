// Package telemetry holds the names of what Purser tells of itself: metrics and log keys. Each
// stands here once.
//
// It must not know what is measured or logged, nor decide when.
package telemetry
