package kubelet

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/backupclient"
	"github.com/purser-csi/purser/test/rolestest"
)

// certificate returns a certificate for this machine and its key, each as a manifest has it.
func (r *rig) certificate() (cert, key string) {
	r.t.Helper()
	dir := r.t.TempDir()
	chain := rolestest.WriteCertificate(r.t, dir)
	private, err := os.ReadFile(filepath.Join(dir, "tls.key"))
	must(r.t, err)
	return base64.StdEncoding.EncodeToString(chain), base64.StdEncoding.EncodeToString(private)
}

// backupProgram returns a backup program with an account that may get snapshots.
func (r *rig) backupProgram() backupclient.Client {
	r.t.Helper()
	account := metav1.ObjectMeta{Namespace: "default", Name: "backup"}
	must(r.t, errors.Join(
		r.Create(r.t.Context(), &corev1.ServiceAccount{ObjectMeta: account}),
		r.Create(r.t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: account,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "purser-snapshot-metadata-client"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		}),
	))
	return backupclient.Client{API: r.Client, Namespace: account.Namespace, Account: account.Name}
}

// backUp writes to the mounted volume after its first snapshot, takes a second one, and backs up both: the
// first by its allocated blocks, the second by those that changed. It returns the second.
func (r *rig) backUp(target string, claim *corev1.PersistentVolumeClaim, base *snapshotv1.VolumeSnapshot) *snapshotv1.VolumeSnapshot {
	r.t.Helper()
	const written = 1 << 20
	file, err := os.Create(filepath.Join(target, "later"))
	must(r.t, err)
	_, err = file.Write(bytes.Repeat([]byte("later\n"), written/6+1))
	must(r.t, errors.Join(err, file.Sync(), file.Close()))
	later := r.snapshotNamed("later", claim)

	program := r.backupProgram()
	backup := filepath.Join(r.t.TempDir(), "backup")
	r.restore(program, backup, "", base.Name)
	changed := r.restore(program, backup, base.Name, later.Name)
	all := r.restore(program, filepath.Join(r.t.TempDir(), "whole"), "", later.Name)
	if changed < written || changed >= all {
		r.t.Errorf("%d bytes changed, of which %d were written, and %d are allocated", changed, written, all)
	}
	return later
}

// restore adds to a backup the blocks of a snapshot, or those that changed since the base, and compares it with
// the snapshot. It returns how many bytes these are.
func (r *rig) restore(program backupclient.Client, backup, base, snapshot string) (total int64) {
	r.t.Helper()
	conn, token, err := program.Connect(r.t.Context(), "default", snapshot)
	must(r.t, err)
	defer conn.Close()
	request := backupclient.Request{Token: token, Namespace: "default", Snapshot: snapshot, Max: 16}
	if base != "" {
		request.Base, err = program.Handle(r.t.Context(), "default", base)
		must(r.t, err)
	}
	blocks, err := backupclient.Collect(r.t.Context(), conn, request)
	must(r.t, err)
	handle, err := program.Handle(r.t.Context(), "default", snapshot)
	must(r.t, err)
	image := filepath.Join(r.stateDir(), "snapshots", handle, "image")
	must(r.t, backupclient.Restore(backup, image, blocks))
	want, err := backupclient.Checksum(image)
	got, alsoErr := backupclient.Checksum(backup)
	if must(r.t, errors.Join(err, alsoErr)); got != want {
		r.t.Errorf("the backup of %s since %q differs from the snapshot, with the blocks %v", snapshot, base, blocks)
	}
	for _, b := range blocks {
		total += b.Size
	}
	return total
}
