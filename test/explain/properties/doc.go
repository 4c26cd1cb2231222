// Package properties has what holds of every answer of explain, whatever the cluster: of the situations of
// test/explain, and of the clusters that the scenarios of test/compat leave.
package properties
