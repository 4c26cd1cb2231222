// Package crash kills the driver before every step that it takes on disk, and
// sees whether a restart and the same calls again make everything whole.
//
// The driver is a process of its own, and the kernel stops it at each system
// call that changes something (test/tracer): to rename, to sync, to mount, to
// attach a device. The one that the test chooses is the last one, and nothing
// in the driver knows of it. Programs that the driver runs, such as mkfs, are
// stopped in the same way, and live on for as long as the driver lets them.
//
// It holds no rules of the driver: what must be true in the end is what the
// CSI spec says about repeated calls, and that nothing is left.
package crash
