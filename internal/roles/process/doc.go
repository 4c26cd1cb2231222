// Package process has the parts of a running role that are the same for every role: access to the
// API server, leader election, the HTTP server with metrics and health, the controller manager, the
// check of permissions, and a cache that several roles of one process share. It knows no controller
// and no CSI driver.
package process
