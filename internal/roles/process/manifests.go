package process

import (
	"fmt"
)

// QuotedGroup returns the API group as YAML.
func QuotedGroup(group string) string {
	if group == "" {
		return `""`
	}
	return group
}

// ServiceAccountManifest returns the manifest of the service account of a role.
func ServiceAccountManifest(name string) string {
	return fmt.Sprintf(
		"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: %s\n  namespace: %s\n",
		name,
		SystemNamespace,
	)
}

// BindingManifest returns the ClusterRoleBinding of a role.
func BindingManifest(name string) string {
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: purser-%[1]s
subjects:
  - kind: ServiceAccount
    name: %[1]s
    namespace: %[2]s
roleRef:
  kind: ClusterRole
  name: purser-%[1]s
  apiGroup: rbac.authorization.k8s.io
`, name, SystemNamespace)
}

// LeaderManifest returns the Role and RoleBinding for leader election of a role.
func LeaderManifest(name string) string {
	return fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: purser-%[1]s
  namespace: %[2]s
rules:
  # Leader election.
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [get, create, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: purser-%[1]s
  namespace: %[2]s
subjects:
  - kind: ServiceAccount
    name: %[1]s
    namespace: %[2]s
roleRef:
  kind: Role
  name: purser-%[1]s
  apiGroup: rbac.authorization.k8s.io
`, name, SystemNamespace)
}
