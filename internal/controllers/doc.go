// Package controllers holds one folder per controller. Each gathers a snapshot, lets core decide,
// and applies the verdict; internal/reconcile is the loop around them. No rule of its own stands
// here.
package controllers
