// Package controllers is the role controllers: the controllers of kube-controller-manager that
// concern claims and volumes, each of which can be switched on and off by its upstream name.
package controllers
