// Command benchdriver measures the CSI driver beside what a person would type for the same: how
// many volumes are created and staged in a second, and how long snapshots and clones take.
//
// Each row has the same steps by the driver, over its socket, and by plain programs (truncate,
// mkfs, losetup, mount, cp), in turns and in one run, so that the ratio between the two says
// something on any machine. The programs do less: they keep no record, and what they made can be
// gone or half made after a crash.
package main
