// Package ephemeral decides which claims are created for the generic ephemeral volumes of pods.
//
// It decides for one volume of one pod, so that a volume whose claim cannot be created does not
// block the others. It must not know how claims are looked up or created.
package ephemeral
