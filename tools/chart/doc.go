// Command chart renders and packages the Helm chart of Purser, with helm as a library.
//
//	chart render CHART [VALUES.yaml]
//	chart package -version v1.2.3 -created SECONDS -out DIR CHART
//
// Its tests render the chart with each set of values in deploy/chart/ci and compare the manifests
// with testdata, which the tests of the main module apply to a real API server.
package main
