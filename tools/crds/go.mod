// The custom resources of snapshots, which a development cluster is given. This module is never imported.
module github.com/purser-csi/purser/tools/crds

go 1.26.0

require github.com/kubernetes-csi/external-snapshotter/client/v8 v8.7.0
