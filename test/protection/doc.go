// Package protection runs the controllers that protect claims, volumes and classes, that create the
// claims of ephemeral volumes and that tell of claims which grow, on a real API server, and counts
// their requests. Any other controller that would act on those objects is absent: the tests say
// what each of them does.
package protection
