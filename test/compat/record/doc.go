// Package record watches an API server and stores all changes of the objects of the scenarios, in
// the order of their resourceVersions. From them it derives when a scenario is quiet.
//
// It must not know what the scenarios are about.
package record
