// Package ephemeral decides which claims are created for the generic ephemeral volumes of pods.
//
// It looks at one volume of one pod, so that one which cannot have its claim keeps no other from
// having it. It must not know how claims are looked up or created.
package ephemeral
