package node

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/mount"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// reconstruct reads from the metadata files what an earlier process, or a kubelet, has mounted
// (5.10). All of it is uncertain: what is wanted is staged and published again, the rest is
// unpublished. What has no metadata and nothing mounted is removed; what has no metadata and is
// mounted stays, and the log names it.
func (a *Agent) reconstruct(ctx context.Context) error {
	return errors.Join(a.findPublications(ctx), a.findDevices(ctx), a.findBlock(ctx))
}

func (a *Agent) findPublications(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(a.layout.PodVolumes("*"), "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		pod := types.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir)))))
		m, err := readMetadata(dir)
		if err != nil {
			a.discard(ctx, dir, dir, filepath.Join(dir, "mount"), err)
			continue
		}
		id := mounting.ID{Pod: pod, Spec: mounting.Unescape(filepath.Base(dir)), Mode: mounting.Filesystem}
		a.found(m.Key(pod), id)
	}
	return nil
}

func (a *Agent) found(key mounting.Key, id mounting.ID) {
	a.records.change(key, func(r mounting.Record) mounting.Record {
		return r.WithPublication(mounting.Publication{ID: id, Published: true, Found: true})
	})
}

func (a *Agent) foundDevice(key mounting.Key, id mounting.DeviceID) {
	a.records.change(key, func(r mounting.Record) mounting.Record {
		return r.WithDevice(mounting.Device{DeviceID: id})
	})
}

func (a *Agent) findDevices(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(a.layout.Plugins(), "*", "*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if isBelow(dir, a.layout.BlockDevices()) {
			continue
		}
		m, err := readMetadata(dir)
		if err != nil {
			a.discard(ctx, dir, dir, filepath.Join(dir, "globalmount"), err)
			continue
		}
		key := mounting.Key{Driver: m.Driver, Handle: m.Handle}
		if a.layout.StageDir(key) != dir {
			logr.FromContextOrDiscard(ctx).Info(
				"the metadata is another volume's; the folder stays as it is", "folder", dir,
			)
			continue
		}
		a.foundDevice(key, mounting.DeviceID{Mode: mounting.Filesystem})
	}
	return nil
}

// findBlock reads the metadata of raw block volumes. The pods are those that have a file in the
// global map, in the publications, or a link.
func (a *Agent) findBlock(ctx context.Context) error {
	entries, err := os.ReadDir(a.layout.BlockDevices())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name == "staging" || name == "publish" {
			continue
		}
		spec := mounting.Unescape(entry.Name())
		data := a.layout.BlockData(spec)
		m, err := readMetadata(data)
		if err != nil {
			staged := a.layout.Stage(mounting.Key{}, mounting.DeviceID{Spec: spec, Mode: mounting.Block})
			a.discard(ctx, a.layout.BlockDir(spec), data, staged, err)
			continue
		}
		key := mounting.Key{Driver: m.Driver, Handle: m.Handle}
		a.foundDevice(key, mounting.DeviceID{Spec: spec, Mode: mounting.Block})
		for _, pod := range a.blockPods(spec) {
			a.found(key, mounting.ID{Pod: pod, Spec: spec, Mode: mounting.Block})
		}
	}
	return nil
}

func (a *Agent) blockPods(spec string) []types.UID {
	var pods []types.UID
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			pods = append(pods, types.UID(name))
		}
	}
	for _, dir := range []string{a.layout.BlockMaps(spec), a.layout.BlockPublish(spec)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not there
		}
		for _, entry := range entries {
			add(entry.Name())
		}
	}
	links, _ := filepath.Glob(a.layout.BlockLink(mounting.ID{Pod: "*", Spec: spec})) // the pattern is ours
	for _, link := range links {
		add(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(link)))))
	}
	return pods
}

// discard removes a folder without readable metadata in data, which a crash before the first write leaves.
// What is there of the metadata stays as long as something is left where the volume is mounted.
func (a *Agent) discard(ctx context.Context, dir, data, mounted string, problem error) {
	log := logr.FromContextOrDiscard(ctx).WithValues("folder", dir, "problem", problem.Error())
	if is, err := mount.IsPoint(mounted); err != nil || is {
		log.Error(err, "something is mounted that no metadata tells of; unmount it by hand", "path", mounted)
		return
	}
	err := inOrder(
		removal(mounted), func() error { return removeMetadata(data) }, func() error { return removeTree(dir) },
	)
	if err != nil {
		log.Error(err, "the folder of a volume without metadata is not empty and stays")
	}
}
