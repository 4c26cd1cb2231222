package names

// AnnNodeExpansionNotRequired is written on a claim whose expansion needed no node: kubelets skip
// it (RZ-N1).
const AnnNodeExpansionNotRequired = "volume.kubernetes.io/node-expansion-not-required"
