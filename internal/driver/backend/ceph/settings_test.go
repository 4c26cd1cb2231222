package ceph

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestWhatAClassMaySay(t *testing.T) {
	long := strings.Repeat("p", 49)
	for want, parameters := range map[string]map[string]string{
		"":                        {"pool": "rbd"},
		" ":                       {"kind": "cephfs", "fsName": "fs", "dataPool": "hdd"},
		"  ":                      {"kind": "rbd", "pool": "Fast_Pool.1", "clusterID": "b", "dataPool": "ec", "imageFeatures": "layering,exclusive-lock"},
		"kind \"nfs\"":            {"kind": "nfs"},
		"pool is missing":         {},
		"fsName is missing":       {"kind": "cephfs"},
		"unknown key \"fsName\"":  {"pool": "rbd", "fsName": "fs"},
		"unknown key \"mounter\"": {"pool": "rbd", "mounter": "fuse"},
		"no name of a pool":       {"pool": "rbd", "dataPool": "-x"},
		"must be names with":      {"pool": "rbd", "imageFeatures": "layering --foo"},
		"clusterID \"../x\"":      {"pool": "rbd", "clusterID": "../x"},
		"pool \"-p\"":             {"pool": "-p"},
		"pool \"" + long:          {"pool": long},
	} {
		_, err := read(parameters)
		if strings.TrimSpace(want) == "" {
			if err != nil {
				t.Errorf("%v: %v", parameters, err)
			}
			continue
		}
		if !fault.Invalid.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want invalid with %s", parameters, err, want)
		}
	}
}

func TestWhatEachKindCanDo(t *testing.T) {
	for _, test := range []struct {
		kind handle.Kind
		c    backend.Capability
		want string
	}{
		{handle.RBD, backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeWriter, FSType: "xfs"}, ""},
		{handle.RBD, backend.Capability{Type: backend.Block, Mode: backend.MultiNodeMultiWriter}, ""},
		{handle.RBD, backend.Capability{Type: backend.Mount, Mode: backend.MultiNodeReaderOnly}, ""},
		{handle.RBD, backend.Capability{Type: backend.Mount, Mode: backend.MultiNodeMultiWriter}, "several nodes that write"},
		{handle.RBD, backend.Capability{Type: backend.Mount, Mode: backend.MultiNodeSingleWriter}, "several nodes that write"},
		{handle.CephFS, backend.Capability{Type: backend.Mount, Mode: backend.MultiNodeMultiWriter}, ""},
		{handle.CephFS, backend.Capability{Type: backend.Block, Mode: backend.SingleNodeWriter}, "no block device"},
		{handle.CephFS, backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeWriter, FSType: "ext4"}, "leave fs_type empty"},
	} {
		err := checkKind(test.kind, test.c)
		if test.want == "" && err != nil || test.want != "" && (!fault.Invalid.Is(err) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s, %s: %v, want %q", test.kind, test.c, err, test.want)
		}
	}
}

func TestChooseSize(t *testing.T) {
	for _, test := range []struct {
		size backend.Range
		want int64
	}{
		{backend.Range{}, defaultBytes},
		{backend.Range{Limit: 10*mebi + 5}, 10 * mebi},
		{backend.Range{Required: 1}, mebi},
		{backend.Range{Required: 3*mebi + 1, Limit: 4 * mebi}, 4 * mebi},
		{backend.Range{Required: 3*mebi + 1, Limit: 4*mebi - 1}, 0},
		{backend.Range{Limit: 1000}, 0},
		{backend.Range{Required: 1<<63 - 1}, 0},
	} {
		got, err := chooseSize(test.size, 0)
		if got != test.want || (err == nil) != (test.want > 0) || err != nil && !fault.OutOfRange.Is(err) {
			t.Errorf("%+v: %d, %v, want %d", test.size, got, err, test.want)
		}
	}
}

func TestUserOfSecrets(t *testing.T) {
	const key = "AQBqsgFrhw8fERAA/N7Hmvz+OF9eKTlWFF0zeQ=="
	for _, test := range []struct {
		secrets map[string]string
		name    string
		problem string
	}{
		{nil, "", ""},
		{map[string]string{"userID": "csi", "userKey": key}, "csi", ""},
		{map[string]string{"userID": " client.csi\n", "userKey": key + "\n"}, "csi", ""},
		{map[string]string{"adminID": "admin", "adminKey": key}, "admin", ""},
		{map[string]string{"adminID": "admin", "adminKey": key, "userID": "csi", "userKey": key}, "csi", ""},
		{map[string]string{"userID": "csi"}, "", "userID and userKey are needed"},
		{map[string]string{"password": key}, "", "userID and userKey are needed"},
		{map[string]string{"userID": "a b", "userKey": key}, "", "userID must be"},
		{map[string]string{"userID": "--conf=x", "userKey": key}, "", "userID must be"},
		{map[string]string{"userID": "csi", "userKey": "AQ\n[client.admin]\nkey = x"}, "", "userKey is no key"},
	} {
		u, err := userOf(backend.NewSecrets(test.secrets))
		if u.name != test.name || test.problem == "" && err != nil {
			t.Errorf("%q: %q, %v", test.secrets, u.name, err)
		}
		if test.problem != "" && (!fault.Invalid.Is(err) || !strings.Contains(err.Error(), test.problem) || strings.Contains(err.Error(), key)) {
			t.Errorf("%q: %v, want %s and no key", test.secrets, err, test.problem)
		}
	}
}
