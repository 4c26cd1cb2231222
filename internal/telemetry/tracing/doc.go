// Package tracing turns decisions of controllers and calls of CSI drivers into OpenTelemetry spans.
// It decides what a span says: reasons, codes and names, and never a message or a value of a
// secret. It does not know where spans are sent, and reads no environment.
package tracing
