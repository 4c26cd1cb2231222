{{- define "purser.fullname" -}}
{{- default (ternary .Release.Name (printf "%s-purser" .Release.Name) (contains "purser" .Release.Name)) .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels of every object. .part is the role. */}}
{{- define "purser.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "purser.selector" . }}
{{- end -}}

{{- define "purser.selector" -}}
app.kubernetes.io/name: purser
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "purser.image" -}}
{{- $i := .root.Values.image -}}
{{- if not (or $i.registry $i.onNodes) -}}
{{- fail "image.registry is empty, and no public registry has the images: build them (make image), push them (crane push bin/images/purser REGISTRY/purser:TAG, the same for purser-driver) and set image.registry=REGISTRY,image.tag=TAG; or import them on each node and set image.onNodes=true" -}}
{{- end -}}
{{- $name := printf "%s:%s" (ternary $i.driverRepository $i.repository (eq .kind "driver")) (default .root.Chart.AppVersion $i.tag) -}}
{{- ternary (printf "%s/%s" $i.registry $name) $name (ne $i.registry "") -}}
{{- end -}}

{{/* Seconds that a pod may take to end: its longest call, five seconds that the process adds, and five for the kubelet. */}}
{{- define "purser.grace" -}}
{{- max 30 (add 10 (max (int .timeoutSeconds) (int (default 0 .createTimeoutSeconds)) (int (default 0 .deleteTimeoutSeconds)))) -}}
{{- end -}}

{{/* Metadata of a pod: .root, .part. */}}
{{- define "purser.podMetadata" -}}
labels:
  {{- include "purser.labels" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the pods of all roles have: .root, .part, .values with what is the role's own, .driver for a pod with the driver. */}}
{{- define "purser.pod" -}}
serviceAccountName: {{ include "purser.accountName" . }}
{{- if .driver }}
# The driver does not talk to the API server. The containers that do mount the token.
automountServiceAccountToken: false
{{- end }}
{{- if .root.Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Whether csi-resizer runs beside the driver of Purser; else empty. Volumes that are folders have no size, and it would end at once. */}}
{{- define "purser.resizes" -}}
{{- if and .resizer (ne .backend "directory") }}true{{ end -}}
{{- end -}}

{{/* The name of the account of .part. */}}
{{- define "purser.accountName" -}}
{{ default (include "purser.fullname" .root) .root.Values.serviceAccount.name }}-{{ .part }}
{{- end -}}

{{/* The token of the account, as the kubelet mounts it, for the containers beside the driver. */}}
{{- define "purser.tokenVolume" -}}
name: token
projected:
  sources:
    - serviceAccountToken: {path: token, expirationSeconds: 3607}
    - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
    - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end -}}

{{- define "purser.tokenMount" -}}
{name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end -}}

{{/* Replicas on different nodes where there are several. */}}
{{- define "purser.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "purser.selector" . | nindent 8 }}
{{- end -}}

{{/* The security context of a container without privileges: .user. */}}
{{- define "purser.restricted" -}}
runAsUser: {{ .user }}
runAsGroup: {{ .user }}
runAsNonRoot: {{ ne (int .user) 0 }}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/*
One container: .root, .values with what is the role's own, .name, .role, .kind (of the image), .port, .args, and .user or .privileged.
Mounts come behind it.
*/}}
{{- define "purser.container" -}}
name: {{ .name }}
image: {{ include "purser.image" . | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [/purser]
args:
  - {{ .role }}
  {{- range .args }}
  - {{ . | quote }}
  {{- end }}
  - --http-endpoint=:{{ .port }}
  {{- if .root.Values.metrics.secure }}
  - --metrics-secure
  {{- end }}
  - --v={{ .root.Values.logging.verbosity }}
  - --logging-format={{ .root.Values.logging.format }}
env:
  - name: NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  - name: NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- with .root.Values.apiServer }}
  {{- if .host }}
  - {name: KUBERNETES_SERVICE_HOST, value: {{ .host | quote }}}
  - {name: KUBERNETES_SERVICE_PORT, value: {{ default 443 .port | toString | quote }}}
  {{- end }}
  {{- end }}
  {{- with concat .root.Values.extraEnv (default list .values.extraEnv) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: {{ default "http" .portName }}, containerPort: {{ .port }}}
# A standby is alive and ready; a process that waits for its driver is alive.
livenessProbe:
  httpGet: {path: /livez, port: {{ default "http" .portName }}{{ if .root.Values.metrics.secure }}, scheme: HTTPS{{ end }}}
  {{- with .root.Values.probes.liveness }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
readinessProbe:
  httpGet: {path: /readyz, port: {{ default "http" .portName }}{{ if .root.Values.metrics.secure }}, scheme: HTTPS{{ end }}}
  {{- with .root.Values.probes.readiness }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
securityContext:
  {{- if .privileged }}
  privileged: true
  {{- else }}
  {{- include "purser.restricted" . | nindent 2 }}
  {{- end }}
{{- with .resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Account and permissions of a pod: .root, .part, .roles, and .more rules. The rules are those of the roles in files/permissions.yaml, which
`make generate` takes from deploy/rbac.
*/}}
{{- define "purser.account" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "purser.fullname" .root) .part -}}
{{- $shipped := .root.Files.Get "files/permissions.yaml" | fromYaml -}}
{{- $cluster := list -}}
{{- $namespace := list -}}
{{- range .roles -}}
{{- $role := get $shipped . -}}
{{- $cluster = concat $cluster (default list $role.cluster) -}}
{{- $namespace = concat $namespace (default list $role.namespace) -}}
{{- end -}}
{{- $cluster = concat $cluster (default list .more) -}}
{{- if .root.Values.metrics.secure -}}
{{- $tokens := dict "apiGroups" (list "authentication.k8s.io") "resources" (list "tokenreviews") "verbs" (list "create") -}}
{{- $access := dict "apiGroups" (list "authorization.k8s.io") "resources" (list "subjectaccessreviews") "verbs" (list "create") -}}
{{- $cluster = concat $cluster (list $tokens $access) -}}
{{- end -}}
{{- if .node }}{{ $cluster = include "purser.nodeRules" (dict "rules" $cluster) | fromYamlArray }}{{ end -}}
{{- if .root.Values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "purser.accountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- if and .roles .root.Values.rbac.create }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
rules:
  {{- uniq $cluster | toYaml | nindent 2 }}
---
{{ include "purser.binding" (dict "root" .root "part" .part "kind" "ClusterRole" "name" $name "namespace" "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
rules:
  {{- uniq $namespace | toYaml | nindent 2 }}
---
{{ include "purser.binding" (dict "root" .root "part" .part "kind" "Role" "name" $name "namespace" .root.Release.Namespace) }}
{{- if .secrets }}
{{- range .root.Values.secretNamespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}-secrets
  namespace: {{ . }}
  labels:
    {{- include "purser.labels" $ | nindent 4 }}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: [get]}
---
{{ include "purser.binding" (dict "root" $root "part" $.part "kind" "Role" "name" (printf "%s-secrets" $name) "namespace" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
The rules for the whole cluster of sidecars that serve one node: none about nodes, pods and attachments, which only sidecars of the whole
cluster read.
*/}}
{{- define "purser.nodeRules" -}}
{{- $kept := list -}}
{{- range .rules -}}
{{- if not (has (first .resources) (list "nodes" "csinodes" "pods" "volumeattachments")) }}{{ $kept = append $kept . }}{{ end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}

{{/* The annotations of an object of `helm test`, by its weight. A test that fails leaves them, for its log. */}}
{{- define "purser.hook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* Binds the account of .part to the role .kind .name. */}}
{{- define "purser.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
subjects:
  - kind: ServiceAccount
    name: {{ include "purser.accountName" . }}
    namespace: {{ .root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
{{- end -}}

{{/* A budget, where there are several replicas: .root, .part, .replicas. */}}
{{- define "purser.budget" -}}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int .replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "purser.fullname" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "purser.labels" . | nindent 4 }}
spec:
  maxUnavailable: {{ .root.Values.podDisruptionBudget.maxUnavailable }}
  selector:
    matchLabels:
      {{- include "purser.selector" . | nindent 6 }}
{{- end }}
{{- end -}}
