// Package durable writes files and moves directories so that a crash of the
// process or of the machine leaves either the old state or the new one.
//
// It decides in which order bytes and directory entries reach the disk: data
// first, then the name, then the directory that holds the name. It must not
// know what is written.
package durable
