// Package house holds the rules of the source tree: who may import whom, what the core may not
// touch, and that every room says what it is for.
package house
