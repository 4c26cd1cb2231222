// Command rows checks the IDs of the behaviour specification that comments and tests cite.
//
// It fails on an ID that no table of docs/spec defines, and lists the rows that no test names.
package main
