package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph"
	cephcommand "github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/mapping"
	"github.com/purser-csi/purser/test/ceph/cluster"
)

// cephOptions say where a cluster is; without the folder of its configuration there is none.
type cephOptions struct {
	conf, cluster, user, keyFile, pool, fsName string
	// own is for a cluster of this machine, which exists for the run.
	own bool
}

func (o *cephOptions) flags() {
	flag.BoolVar(
		&o.own,
		"ceph-start",
		false,
		"start a Ceph of this machine, in memory, for the run; its rows tell what the driver adds, not how fast Ceph is",
	)
	flag.StringVar(&o.conf, "ceph-conf", "", "`folder` with CLUSTER.conf, for a Ceph cluster to take part; empty for none")
	flag.StringVar(&o.cluster, "ceph-cluster", "ceph", "`name` of the cluster")
	flag.StringVar(&o.user, "ceph-user", "admin", "`name` of the user, without client.")
	flag.StringVar(&o.keyFile, "ceph-key-file", "", "`file` with the key of the user and nothing else")
	flag.StringVar(&o.pool, "ceph-pool", "rbd", "`pool` for images; empty for no images")
	flag.StringVar(&o.fsName, "ceph-filesystem", "", "`name` of a CephFS for subvolumes; empty for none")
}

func (o *cephOptions) check() error {
	switch {
	case o.own && o.conf != "":
		return errors.New("-ceph-start and -ceph-conf: give one of them")
	case o.conf != "" && o.keyFile == "":
		return errors.New("-ceph-key-file: missing; `ceph auth get-key client.USER` prints what belongs into it")
	}
	return nil
}

// start makes the cluster that was asked for, and fills in where it is.
func (o *cephOptions) start(ctx context.Context, dir string) (stop func() error, err error) {
	if !o.own {
		return func() error { return nil }, nil
	}
	if missing := cluster.Missing(); missing != "" {
		return nil, errors.New(missing)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, dir)
	if err != nil {
		return nil, err
	}
	o.conf, o.cluster, o.user, o.keyFile, o.pool, o.fsName = c.ConfDir(), "ceph", "bench", filepath.Join(
		dir,
		"key",
	), "rbd", "cephfs"
	err = errors.Join(c.AddPool(ctx, o.pool), c.AddFilesystem(ctx, o.fsName))
	key, failure := c.AddUser(ctx, o.user)
	if err = errors.Join(err, failure, os.WriteFile(o.keyFile, []byte(key), 0o600)); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c.Stop, nil
}

// subjects are images and subvolumes.
func (o *cephOptions) subjects(ctx context.Context) ([]subject, error) {
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
		mapper, err := mapping.Choose(ctx, mapping.Mappers(cephcommand.NewRunner(cephcommand.Config{})))
		if err != nil {
			return nil, err
		}
		for _, fs := range []string{"ext4", "xfs", ""} {
			s := common
			s.name, s.fs, s.access = "ceph rbd "+fs, fs, mounted(fs)
			if fs == "" {
				s.name, s.access = "ceph rbd block", block()
			}
			s.parameters = map[string]string{"kind": "rbd", "clusterID": o.cluster, "pool": o.pool}
			s.tools = func(dir string) hands {
				return imageTools{cephPrograms: o.programs(), dir: dir, fs: fs, mapper: mapper.Name()}
			}
			all = append(all, s)
		}
	}
	if o.fsName != "" {
		s := common
		s.name, s.access = "ceph cephfs", mounted("")
		s.parameters = map[string]string{"kind": "cephfs", "clusterID": o.cluster, "fsName": o.fsName}
		s.tools = func(dir string) hands { return subvolumeTools{cephPrograms: o.programs(), dir: dir} }
		all = append(all, s)
	}
	return all, nil
}
