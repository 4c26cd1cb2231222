// Package up is the role up: a development cluster with storage in one terminal. It starts the
// cluster's programs, the built-in driver and the roles in one process, and stops them in the
// reverse order.
package up
