// Package healthmonitor is the role csi-external-health-monitor-controller, the drop-in for upstream's
// program: its flags, its lease and its permissions. What it does about the health of a volume is in
// internal/health; it must not know how.
package healthmonitor
