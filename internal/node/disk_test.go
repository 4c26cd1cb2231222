package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/kube"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// 5.10: what is found on disk, what is removed, and what stays.
func TestReconstruct(t *testing.T) {
	l := mounting.Layout{} // paths below the root
	key, inline := keyOf("a"), mounting.Key{Driver: driverName, Pod: "uid-a", Name: "tmp"}
	dir, inlineDir := l.VolumeDir("uid-a", "pv-a"), l.VolumeDir("uid-a", "tmp")
	encoded := func(m mounting.Metadata) string {
		content, _ := m.Encode() // strings alone
		return string(content)
	}
	published := encoded(mounting.PublishMetadata(key, idOf("a"), nodeName))
	type found struct {
		key mounting.Key
		of  mounting.Record
	}
	fs := mounting.Record{}.WithPublication(mounting.Publication{ID: idOf("a"), Published: true, Found: true})
	raw := mounting.ID{Pod: "uid-a", Spec: "pv-a", Mode: mounting.Block}
	for row, tc := range map[string]struct {
		files map[string]string // content by path; a path that ends with / is a folder
		want  []found
		gone  string
		stays string
	}{
		"a publication": {map[string]string{dir + "/vol_data.json": published, dir + "/mount/": ""}, []found{{key, fs}}, "", dir + "/vol_data.json"},
		"an inline volume": {
			map[string]string{inlineDir + "/vol_data.json": encoded(mounting.PublishMetadata(inline, mounting.ID{Pod: "uid-a", Spec: "tmp"}, nodeName))},
			[]found{{inline, mounting.Record{}.WithPublication(mounting.Publication{
				ID: mounting.ID{Pod: "uid-a", Spec: "tmp", Mode: mounting.Filesystem}, Published: true, Found: true,
			})}},
			"", inlineDir,
		},
		"a device": {
			map[string]string{l.StageDir(key) + "/vol_data.json": encoded(mounting.StageMetadata(key))},
			[]found{{key, mounting.Record{}.WithDevice(mounting.Device{DeviceID: mounting.DeviceID{Mode: mounting.Filesystem}})}},
			"", l.StageDir(key),
		},
		"a device in the folder of another": {
			map[string]string{l.StageDir(keyOf("b")) + "/vol_data.json": encoded(mounting.StageMetadata(key))}, nil, "", l.StageDir(keyOf("b")),
		},
		"a raw block volume": {
			map[string]string{l.BlockData("pv-a") + "/vol_data.json": encoded(mounting.BlockMetadata(key, "pv-a", nodeName)), l.BlockMap(raw): ""},
			[]found{{key, mounting.Record{}.WithDevice(mounting.Device{DeviceID: raw.Device()}).WithPublication(
				mounting.Publication{ID: raw, Published: true, Found: true})}},
			"", l.BlockMap(raw),
		},
		"no metadata, and empty":                    {map[string]string{dir + "/mount/": ""}, nil, dir, ""},
		"half written metadata":                     {map[string]string{dir + "/vol_data.json": "{", dir + "/mount/": ""}, nil, dir, ""},
		"unfinished metadata":                       {map[string]string{dir + "/vol_data.json.new": published}, nil, dir, ""},
		"unfinished metadata of a raw block volume": {map[string]string{l.BlockData("pv-a") + "/vol_data.json.new": ""}, nil, l.BlockDir("pv-a"), ""},
		"half written metadata, and data":           {map[string]string{dir + "/vol_data.json": "{", dir + "/mount/data": "x"}, nil, "", dir + "/vol_data.json"},
		"the same below a staging path":             {map[string]string{l.StageDir(key) + "/vol_data.json": "{", l.StageDir(key) + "/globalmount/data": "x"}, nil, "", l.StageDir(key) + "/vol_data.json"},
		"no metadata, and a file of unknown use":    {map[string]string{dir + "/file": "x"}, nil, "", dir + "/file"},
	} {
		t.Run(row, func(t *testing.T) {
			a, _ := newAgent(t)
			for name, content := range tc.files {
				if filepath.Clean(name) == name {
					write(t, filepath.Join(a.Root, name), content)
				} else if err := os.MkdirAll(filepath.Join(a.Root, name), dirMode); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.reconstruct(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(a.records.keys()); got != len(tc.want) {
				t.Errorf("%d volumes found: %v", got, a.records.keys())
			}
			for _, want := range tc.want {
				got := a.records.get(want.key)
				if !slices.Equal(got.Devices, want.of.Devices) || !slices.Equal(got.Publications, want.of.Publications) {
					t.Errorf("%v: %+v, want %+v", want.key, got, want.of)
				}
			}
			if tc.gone != "" && exists(filepath.Join(a.Root, tc.gone)) {
				t.Errorf("%s is still there", tc.gone)
			}
			if tc.stays != "" && !exists(filepath.Join(a.Root, tc.stays)) {
				t.Errorf("%s is gone", tc.stays)
			}
		})
	}
}

// 5.8: metadata and record stay as long as data is left where the volume was mounted.
func TestCleanKeepsMetadata(t *testing.T) {
	a, _ := newAgent(t)
	key, id := keyOf("a"), idOf("a")
	a.found(key, id)
	a.foundDevice(key, id.Device())
	target, stage := a.layout.Target(id), a.layout.Stage(key, id.Device())
	for _, tc := range []struct {
		path, data string
		clean      func() error
	}{
		{target, a.layout.VolumeDir(id.Pod, id.Spec), func() error { return a.cleanPublication(key, id) }},
		{stage, a.layout.StageDir(key), func() error { return a.cleanDevice(key, id.Device()) }},
	} {
		metadata := filepath.Join(tc.data, mounting.DataFile)
		write(t, metadata, "{}")
		write(t, filepath.Join(tc.path, "data"), "x")
		if err := tc.clean(); err == nil || !exists(metadata) || a.records.get(key).IsEmpty() {
			t.Errorf("%s: %v, metadata %t, record %+v", tc.path, err, exists(metadata), a.records.get(key))
		}
		if err := os.Remove(filepath.Join(tc.path, "data")); err != nil {
			t.Fatal(err)
		}
		if err := tc.clean(); err != nil || exists(tc.data) {
			t.Errorf("%s: %v, folder %t", tc.path, err, exists(tc.data))
		}
	}
	if !a.records.get(key).IsEmpty() {
		t.Errorf("%+v", a.records.get(key))
	}
}

// 5.10: neither a volume's folder nor an orphaned pod's is removed while something is mounted below.
func TestNothingRemovedBelowMount(t *testing.T) {
	a, _ := newAgent(t)
	key, id := keyOf("a"), idOf("a")
	target, metadata := a.layout.Target(id), filepath.Join(a.layout.VolumeDir(id.Pod, id.Spec), mounting.DataFile)
	write(t, metadata, "{}")
	if err := os.MkdirAll(target, dirMode); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", 0, ""); err != nil {
		t.Skipf("mounting takes root: %v", err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	a.found(key, id)
	if err := a.cleanPublication(key, id); err == nil || !exists(metadata) {
		t.Errorf("%v, metadata %t", err, exists(metadata))
	}
	podTask{a}.cleanPod(t.Context(), id.Pod)
	dir := a.layout.VolumeDir(id.Pod, id.Spec)
	a.discard(t.Context(), dir, dir, target, os.ErrInvalid)
	if !exists(metadata) || a.records.get(key).IsEmpty() {
		t.Errorf("metadata %t, record %+v", exists(metadata), a.records.get(key))
	}
	if err := unix.Unmount(target, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.cleanPublication(key, id); err != nil || exists(metadata) {
		t.Errorf("%v, metadata %t", err, exists(metadata))
	}
}

// 5.10: no pod is worked on before the volumes of an earlier process are found.
func TestPodsAwaitReconstruction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAgent(t)
		if err := os.MkdirAll(a.layout.Pod("uid-a"), dirMode); err != nil {
			t.Fatal(err)
		}
		q := newQueue[kube.Key]()
		defer q.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		started := false
		go func() {
			if err := a.startPods(ctx, q); err != nil {
				t.Error(err)
			}
			started = true
		}()
		if synctest.Wait(); started || q.Len() > 0 {
			t.Errorf("started %t with %d keys before reconstruction", started, q.Len())
		}
		volumes := newQueue[mounting.Key]()
		defer volumes.ShutDown()
		if err := a.start(ctx, volumes); err != nil {
			t.Fatal(err)
		}
		if synctest.Wait(); !started || q.Len() != 1 {
			t.Errorf("started %t with %d keys after reconstruction", started, q.Len())
		}
	})
}
