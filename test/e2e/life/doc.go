// Package life is the life of a volume, step by step, on a real cluster: from the claim to the last
// byte on disk. The demo narrates it, the tests assert it.
package life
