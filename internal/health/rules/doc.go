// Package health decides what becomes of the health that a CSI driver reports for a volume: which volume is
// checked and when, what is written into status.healthStatus of its claim, and which event the claim gets.
//
// It must not know how the driver is called, how a claim is written, or what time it is.
package health
