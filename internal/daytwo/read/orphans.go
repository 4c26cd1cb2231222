package read

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/moby/sys/mountinfo"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
)

// OrphanConfig says what is compared.
type OrphanConfig struct {
	Reader     client.Reader
	CSIAddress string        // socket of a driver; empty for none
	KubeletDir string        // on this machine; empty for none
	Timeout    time.Duration // of one call to the driver
	// Again is the pause before a volume of the driver that no object names is compared once more:
	// every volume is so for a moment between CreateVolume and its PersistentVolume, and between
	// their deletions.
	Again time.Duration
	Grace time.Duration
}

// Orphans reads all that [rules.FindOrphans] compares.
func Orphans(ctx context.Context, cfg OrphanConfig, now time.Time) (rules.OrphanInput, error) {
	driver, err := connect(ctx, cfg)
	if err != nil {
		return rules.OrphanInput{}, err
	}
	defer driver.close()
	in, err := cfg.compareWith(ctx, driver, now)
	if err != nil || !rules.HasUnknown(in) {
		return in, err
	}
	select {
	case <-ctx.Done():
		return in, ctx.Err()
	case <-time.After(cfg.Again):
	}
	second, err := cfg.compareWith(ctx, driver, now)
	return rules.KeepSeen(second, in), err
}

// compareWith reads once: what a driver lists first, and objects before those that refer to them.
func (cfg OrphanConfig) compareWith(ctx context.Context, driver *connection, now time.Time) (rules.OrphanInput, error) {
	in := rules.OrphanInput{Now: now, Grace: cfg.Grace}
	if driver != nil {
		list, err := driver.list(ctx)
		if err != nil {
			return in, err
		}
		in.Drivers = []rules.DriverList{list}
	}
	if err := cfg.mounts(&in); err != nil {
		return in, err
	}
	l := &lister{from: cfg.Reader, missing: map[string]string{}}
	var attachments storagev1.VolumeAttachmentList
	var contents snapshotv1.VolumeSnapshotContentList
	var groupContents groupv1.VolumeGroupSnapshotContentList
	var volumes corev1.PersistentVolumeList
	var snapshots snapshotv1.VolumeSnapshotList
	var groups groupv1.VolumeGroupSnapshotList
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	var nodes corev1.NodeList
	l.list(ctx, rules.KindAttachments, &attachments, false)
	l.list(ctx, rules.KindContents, &contents, false)
	l.list(ctx, rules.KindGroupConts, &groupContents, false)
	l.list(ctx, rules.KindVolumes, &volumes, false)
	l.list(ctx, rules.KindSnapshots, &snapshots, true)
	l.list(ctx, rules.KindGroups, &groups, true)
	l.list(ctx, rules.KindClaims, &claims, true)
	l.list(ctx, rules.KindPods, &pods, true)
	l.list(ctx, rules.KindNodes, &nodes, false)
	in.Attachments, in.Contents, in.GroupConts = attachments.Items, contents.Items, groupContents.Items
	in.Volumes, in.Snapshots, in.Groups = volumes.Items, snapshots.Items, groups.Items
	in.Claims, in.Pods, in.Nodes, in.Missing = claims.Items, pods.Items, nodes.Items, l.missing
	if l.err != nil || driver == nil {
		return in, l.err
	}
	return in, cfg.journals(ctx, &in)
}

// journals counts the unresolved requests of the provisioners of a driver.
func (cfg OrphanConfig) journals(ctx context.Context, in *rules.OrphanInput) error {
	l := &lister{from: cfg.Reader, missing: map[string]string{}}
	var leases coordinationv1.LeaseList
	l.list(ctx, "Leases", &leases, true)
	for d := range in.Drivers {
		list := &in.Drivers[d]
		if why := l.missing["Leases"]; why != "" {
			list.Unread = append(list.Unread, "unresolved requests of "+list.Driver+": Leases: "+why)
		}
		for i := range leases.Items {
			lease := &leases.Items[i]
			if !strings.HasPrefix(strings.ToLower(lease.Name), strings.ToLower(
				names.JournalLeasePrefix+names.SanitizeDriver(list.Driver))) {
				continue
			}
			entries, err := intent.Decode(lease.Annotations[names.AnnIntents])
			if err != nil {
				list.Unread = append(list.Unread, fmt.Sprintf("unresolved requests in Lease %s/%s: %v", lease.Namespace,
					lease.Name, err))
				continue
			}
			list.Unresolved += len(entries)
		}
	}
	return l.err
}

// mounts reads the mount table of this machine.
func (cfg OrphanConfig) mounts(in *rules.OrphanInput) error {
	if cfg.KubeletDir == "" {
		return nil
	}
	if info, err := os.Stat(cfg.KubeletDir); err != nil {
		return fmt.Errorf("--kubelet-dir=%s: %w", cfg.KubeletDir, err)
	} else if !info.IsDir() {
		return fmt.Errorf("--kubelet-dir=%s: must be a folder", cfg.KubeletDir)
	}
	table, err := mountinfo.GetMounts(mountinfo.PrefixFilter(cfg.KubeletDir))
	if err != nil {
		return fmt.Errorf("--kubelet-dir=%s: read the mount table: %w", cfg.KubeletDir, err)
	}
	if in.Machine, err = os.Hostname(); err != nil || in.Machine == "" {
		in.Machine = "this one"
	}
	for _, m := range table {
		if found, ok := rules.ParseMount(cfg.KubeletDir, m.Mountpoint); ok {
			in.Mounts = append(in.Mounts, found)
		}
	}
	return nil
}

// connection is a driver that is asked.
type connection struct {
	conn    *csirpc.Conn
	driver  csirpc.Description
	timeout time.Duration
}

// connect dials the driver; nil without an address.
func connect(ctx context.Context, cfg OrphanConfig) (*connection, error) {
	if cfg.CSIAddress == "" {
		return nil, nil //nolint:nilnil // there is no driver to ask
	}
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: cfg.CSIAddress, Timeout: cfg.Timeout})
	if err != nil {
		return nil, fmt.Errorf("--csi-address=%s: %w", cfg.CSIAddress, err)
	}
	ready, stop := context.WithTimeout(ctx, cfg.Timeout)
	defer stop()
	c := &connection{conn: conn, timeout: cfg.Timeout}
	if err = conn.Probe(ready); err == nil {
		c.driver, err = conn.Describe(ready)
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("--csi-address=%s: the driver does not answer: %w", cfg.CSIAddress, err)
	}
	return c, nil
}

func (c *connection) close() {
	if c != nil {
		_ = c.conn.Close()
	}
}

// list asks the driver for its volumes and snapshots, as far as it lists them.
func (c *connection) list(ctx context.Context) (rules.DriverList, error) {
	list := rules.DriverList{Driver: c.driver.Name}
	for _, l := range []struct {
		what       string
		capability csi.ControllerServiceCapability_RPC_Type
		page       func(context.Context, string) (string, error)
	}{
		{"volumes", csi.ControllerServiceCapability_RPC_LIST_VOLUMES, c.volumes(&list)},
		{"snapshots", csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, c.snapshots(&list)},
	} {
		if !c.driver.Controller[l.capability] {
			list.Unread = append(list.Unread,
				fmt.Sprintf("%s of driver %s: it does not list them (%s)", l.what, list.Driver,
					l.capability))
			continue
		}
		if err := c.pages(ctx, l.page); err != nil {
			return list, fmt.Errorf("%s of driver %s: %w", l.what, list.Driver, err)
		}
	}
	return list, nil
}

// pages calls a function for each page, with the token of the page.
func (c *connection) pages(ctx context.Context, page func(context.Context, string) (string, error)) error {
	token := ""
	for range csirpc.MostPages {
		call, stop := context.WithTimeout(ctx, c.timeout)
		next, err := page(call, token)
		stop()
		if err != nil {
			return err
		}
		if token = next; token == "" {
			return nil
		}
	}
	return fmt.Errorf("no end after %d pages", csirpc.MostPages)
}

func (c *connection) volumes(list *rules.DriverList) func(context.Context, string) (string, error) {
	return func(ctx context.Context, token string) (string, error) {
		page, err := c.conn.Controller().ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token})
		for _, e := range page.GetEntries() {
			v := e.GetVolume()
			list.Volumes = append(list.Volumes, rules.DriverVolume{
				Handle: v.GetVolumeId(), Bytes: v.GetCapacityBytes(),
			})
		}
		return page.GetNextToken(), err
	}
}

func (c *connection) snapshots(list *rules.DriverList) func(context.Context, string) (string, error) {
	return func(ctx context.Context, token string) (string, error) {
		page, err := c.conn.Controller().ListSnapshots(ctx, &csi.ListSnapshotsRequest{StartingToken: token})
		for _, e := range page.GetEntries() {
			s := e.GetSnapshot()
			list.Snapshots = append(list.Snapshots, rules.DriverVolume{
				Handle: s.GetSnapshotId(), Source: s.GetSourceVolumeId(), Bytes: s.GetSizeBytes(),
			})
		}
		return page.GetNextToken(), err
	}
}

// Handle reads one volume of a driver, for a PersistentVolume that names it.
func Handle(ctx context.Context, cfg OrphanConfig, handle string) (string, rules.DriverVolume, error) {
	driver, err := connect(ctx, cfg)
	if err != nil {
		return "", rules.DriverVolume{}, err
	}
	defer driver.close()
	list, err := driver.list(ctx)
	if err != nil {
		return "", rules.DriverVolume{}, err
	}
	i := slices.IndexFunc(list.Volumes, func(v rules.DriverVolume) bool { return v.Handle == handle })
	if i < 0 {
		return "", rules.DriverVolume{}, fmt.Errorf("--pv-of=%s: driver %s lists no such volume", handle, list.Driver)
	}
	return list.Driver, list.Volumes[i], nil
}
