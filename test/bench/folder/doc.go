// Package folder gives a benchmark a folder to work in, and decides whether the folder stays for the
// logs in it. It must not know what is measured.
package folder
