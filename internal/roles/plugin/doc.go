// Package plugin makes `kubectl purser` of the commands that users and administrators call. No role
// is among them.
package plugin
