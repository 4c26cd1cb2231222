// Package csirpc is how Purser talks to one CSI driver: it connects, waits until the driver is ready, learns its name and
// capabilities, and hands every call through interceptors for metrics and logs without secrets.
//
// A lost connection is connected again; nothing here ends the process. It decides nothing about volumes and must not know the
// Kubernetes API.
package csirpc
