// Package backupclient is a backup program that asks for the blocks of snapshots, by the protocol
// of upstream's iterator (CB-28). Its messages are built from the descriptors of upstream's proto
// (CB-24 to CB-26), and share no code with the service, so that a test with it is one of the wire.
package backupclient
