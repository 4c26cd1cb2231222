// Package daytwo has the commands for the time after the first day: df, orphans, grow, check and
// unused. It parses flags, connects and prints; what is decided and done is in internal/daytwo.
package daytwo
