// Command rows lists which rows of the behaviour specification have a test that names them, and which have not.
//
// The specification numbers each fact about the provisioner that is replaced; rows.txt has the numbers. A test names the rows
// that it holds in its names or comments, so that coverage can be counted and not only claimed.
package main
