// Package reports plays reports of faults, as small scripts, on one real control plane.
//
// A folder is a kind of fault; each file KIND/NAME.txtar in it is one report. It begins with comments: what
// happened, and what must hold. [TestReports] runs all of them with
// github.com/rogpeppe/go-internal/testscript on one `purser up --csi-address`, with a CSI driver in the
// process of the test that keeps volumes, snapshots and groups in memory and gives the answers that a
// script sets. Four scripts run at a time. A script with a line "# alone: WHY" runs after the others, by
// itself: one that changes what the scripts share, such as the Node, the CSINode or the CSIDriver.
//
// A wait that is said on an object after a minute is said after three seconds here (sayWaitsAfter).
//
// What a script owns: the namespace $NS, the StorageClass $CLASS (with parameter script=$NS), the
// VolumeSnapshotClass $SNAPCLASS, the VolumeGroupSnapshotClass $GROUPCLASS and all objects of the cluster
// whose names begin with $NS. $DRIVER is the driver's name, $NODE the node's. A class of the script's own
// needs the parameter `script: $NS`, and a handle made by hand begins with `$NS.`: by these the driver
// knows whose answers hold for a call.
//
// When a script ends, its answers are cleared, the namespace is deleted, and everything deleted must go:
// the namespace, its volumes, the objects of the cluster, and what the driver has created. `leaves` is for
// a script whose report is about something that stays.
//
// Commands in addition to those of testscript; a wait is bounded by a minute:
//
//	kubectl ARGS                 as administrator, in $NS. `! kubectl` must fail; then stdout, stderr
//	purser ARGS                  likewise, such as `purser explain pvc/a`
//	apply [FLAGS] FILE...        kubectl apply, with variables in the file replaced
//	let NAME kubectl ARGS        sets a variable to what is printed
//	until PATTERN kubectl ARGS   repeats the command until what it prints matches; `! until`: until it
//	                             does not match; also with purser and driver
//	event OBJECT [TYPE/]REASON PATTERN  waits for an event, such as `event pvc/a ProvisioningFailed 'no space'`;
//	                             `! event` asserts that there is none
//	driver answer METHOD CODE [MESSAGE] [times=N] [volume=PATTERN] [with=PATTERN] [after]
//	                             answers calls of a method with a gRPC code, N times or until cleared.
//	                             volume: of the volume, snapshot or group that the call names, with: of
//	                             the request as JSON. after: does what was asked for, and fails then.
//	                             With code OK, MESSAGE is JSON that replaces fields of the answer. Code
//	                             Hang never answers.
//	driver clear [METHOD]        forgets these answers
//	driver calls METHOD [volume=PATTERN] [with=PATTERN] min=N|max=N|==N
//	                             min waits, max asserts; == waits for N calls, and fails for more
//	driver has volume|snapshot|group PATTERN  waits until the driver has such a one; `! driver has`: has none
//	driver volume HANDLE [SIZE]  makes a volume that no call has created
//	driver snapshot HANDLE VOLUME [SIZE]  likewise a snapshot
//	quiet calls METHOD max=N     lets a few healthy claims live from creation to deletion, and fails if
//	                             the method was called more than N times meanwhile for this script
//	quiet object KIND/NAME       likewise, and fails if the object was written meanwhile
//	gone OBJECT...               deletes objects, and waits until they are gone
//	leaves PATTERN WHY           what remains at the end and may: `KIND/NAME` of objects, `volume/ID` and
//	                             `snapshot/ID` of the driver
//
// A report that a script cannot show (a crash, an hour, a full disk) is a line in KIND/elsewhere.txt:
//
//	NAME: what must hold: path/of/package TestName [path TestName ...]
//
// [TestElsewhere] fails if such a test does not exist.
package reports
