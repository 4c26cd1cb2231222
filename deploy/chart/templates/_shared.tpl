{{/* The StatefulSet of a driver whose volumes every node reaches: the driver without mounts, and all sidecars in one process. */}}
{{- define "purser.shared" -}}
{{- with .Values.driver }}
{{- $roles := list "csi-provisioner" }}
{{- range list "attacher" "resizer" "snapshotter" }}
{{- if not (has . $.Values.driver.controller.without) }}{{ $roles = append $roles (printf "csi-%s" .) }}{{ end }}
{{- end }}
{{- $c := dict "root" $ "part" "driver-controller" "values" .controller "replicas" .controller.replicas "roles" $roles "secrets" true }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "purser.fullname" $ }}-ceph
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "purser.labels" $c | nindent 4 }}
data:
  {{- range $cluster, $text := .clusters }}
  {{ $cluster }}.conf: {{ $text | quote }}
  {{- end }}
---
{{ include "purser.account" $c }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ include "purser.fullname" $ }}-driver-controller
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "purser.labels" $c | nindent 4 }}
spec:
  serviceName: ""
  replicas: {{ .controller.replicas }}
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "purser.selector" $c | nindent 6 }}
  template:
    metadata:
      {{- include "purser.podMetadata" $c | nindent 6 }}
    spec:
      {{- include "purser.pod" $c | nindent 6 }}
      {{- with $.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      terminationGracePeriodSeconds: {{ include "purser.grace" . }}
      {{- include "purser.spread" $c | nindent 6 }}
      containers:
        {{- $driverArgs := list "--backend=ceph" (printf "--driver-name=%s" .name) "--endpoint=unix:///csi/csi.sock"
          "--state-dir=/var/lib/purser" "--node-id=$(NODE_NAME)" }}
        {{- if has "csi-attacher" $roles }}{{ $driverArgs = append $driverArgs "--attach-required" }}{{ end }}
        - {{- include "purser.container" (dict "root" $ "name" "driver" "role" "driver" "kind" "driver" "user" 0 "port" (int .controller.port)
            "args" (concat $driverArgs .extraArgs) "resources" .resources) | nindent 10 }}
          volumeMounts:
            - {name: socket, mountPath: /csi}
            - {name: state, mountPath: /var/lib/purser}
            - {name: state, mountPath: /tmp, subPath: tmp}
            - {name: ceph, mountPath: /etc/ceph, readOnly: true}
        {{- $args := list "--csi-address=/csi/csi.sock" "--leader-election" (printf "--timeout=%ds" (int .timeoutSeconds)) }}
        {{- with .controller.without }}{{ $args = append $args (printf "--without=%s" (join "," .)) }}{{ end }}
        - {{- include "purser.container" (dict "root" $ "name" "sidecars" "role" "sidecars" "kind" "purser" "user" 0 "port" (int (add .controller.port 1))
            "portName" "sidecars" "args" $args) | nindent 10 }}
          volumeMounts:
            - {name: socket, mountPath: /csi}
      volumes:
        - name: socket
          emptyDir: {}
        - name: state
          emptyDir: {}
        - name: ceph
          configMap: {name: {{ include "purser.fullname" $ }}-ceph}
{{- include "purser.budget" $c }}
{{- end }}
{{- end -}}
