// Package read reads what the decisions of internal/daytwo/rules compare: objects of the API
// server, the statistics of kubelets, the lists of a driver, and the mount table of this machine.
// It changes nothing.
//
// It must not judge what it reads.
package read
