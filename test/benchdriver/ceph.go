package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph"
)

// cephOptions say where a cluster is; without the folder of its configuration there is none.
type cephOptions struct {
	conf, cluster, user, keyFile, pool, fsName string
}

func (o *cephOptions) flags() {
	flag.StringVar(&o.conf, "ceph-conf", "", "`folder` with CLUSTER.conf, for a Ceph cluster to take part; empty for none")
	flag.StringVar(&o.cluster, "ceph-cluster", "ceph", "`name` of the cluster")
	flag.StringVar(&o.user, "ceph-user", "admin", "`name` of the user, without client.")
	flag.StringVar(&o.keyFile, "ceph-key-file", "", "`file` with the key of the user and nothing else")
	flag.StringVar(&o.pool, "ceph-pool", "rbd", "`pool` for images; empty for no images")
	flag.StringVar(&o.fsName, "ceph-filesystem", "", "`name` of a CephFS for subvolumes; empty for none")
}

func (o *cephOptions) check() error {
	if o.conf != "" && o.keyFile == "" {
		return errors.New("-ceph-key-file: missing; `ceph auth get-key client.USER` prints what belongs into it")
	}
	return nil
}

// subjects are images and subvolumes. No plain programs are measured beside them: the driver does nothing but run those.
func (o *cephOptions) subjects() ([]subject, error) {
	if o.conf == "" {
		return nil, nil
	}
	key, err := os.ReadFile(o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("-ceph-key-file: %w", err)
	}
	common := subject{
		backend: func(state string) (backend.Backend, error) {
			return ceph.New(ceph.Config{StateDir: state, ConfDir: o.conf})
		},
		secrets: map[string]string{"userID": o.user, "userKey": strings.TrimSpace(string(key))},
	}
	var all []subject
	if o.pool != "" {
		for _, fs := range []string{"ext4", "xfs", ""} {
			s := common
			s.name, s.fs, s.access = "ceph rbd "+fs, fs, mounted(fs)
			if fs == "" {
				s.name, s.access = "ceph rbd block", block()
			}
			s.parameters = map[string]string{"kind": "rbd", "clusterID": o.cluster, "pool": o.pool}
			all = append(all, s)
		}
	}
	if o.fsName != "" {
		s := common
		s.name, s.access = "ceph cephfs", mounted("")
		s.parameters = map[string]string{"kind": "cephfs", "clusterID": o.cluster, "fsName": o.fsName}
		all = append(all, s)
	}
	return all, nil
}
