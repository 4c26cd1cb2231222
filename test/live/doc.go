// Package live runs the roles on a real API server, with the built-in driver or a scripted one, and
// compares them with upstream's programs where these are built. What a role decides is tested beside
// its rules; here is what only a real server, socket or file system can show.
package live
