// Package socket makes the unix sockets on which the driver serves.
//
// It decides who may connect, which is this user alone, and when a file that is
// in the way may go: only when it is the socket of a process that is dead.
//
// It must not know what is served.
package socket
