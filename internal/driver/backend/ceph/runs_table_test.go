package ceph_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/test/ceph/faketool"
)

type (
	step   = faketool.Step
	rounds = [][]string
)

const meanwhile = faketool.Meanwhile

// runs is what a call asks for, and what it runs: a run of rbd takes some 40 ms
// and one of ceph half a second, so each of them is here for a reason.
type runs struct {
	script []step
	do     func(*whole) error
	want   rounds
}

func (r runs) check(t *testing.T) {
	t.Helper()
	w := newWhole(t)
	w.tools.Script(r.script...)
	w.tools.Expect(r.want...)
	if err := r.do(w); err != nil {
		t.Error(err)
	}
	w.tools.CheckExpected()
}

const recordOfSource = `{"format":1,"name":"src","capabilities":[{"accessType":"mount","accessMode":"SINGLE_NODE_WRITER"}]}`

func answer(begins, stdout string) step { return step{Begins: begins, Stdout: stdout} }

// once is for what is answered otherwise the next time.
func once(s step) step {
	s.Times = 1
	return s
}

func missing(begins string) step {
	return step{Begins: begins, Status: 2, Stderr: "(2) No such file or directory\n"}
}

var (
	imagePlace  = handle.Place{Kind: handle.RBD, Cluster: "ceph", Pool: "p"}
	images      = map[string]string{"pool": "p"}
	image       = handle.Volume(imagePlace, "vol")
	sourceImage = handle.Volume(imagePlace, "src")
	imageSnap   = handle.Snapshot(sourceImage, "snap")
	snapsOf     = `[{"id":3,"name":"` + imageSnap.Snap + `","size":33554432,"timestamp":"Sun Nov 22 08:44:01 2026","namespace":{"type":"user"}}]`
	recordOfImg = answer("rbd image-meta get p/purser.src", recordOfSource)
	infoOfImg   = answer("rbd info", `{"id":"1a","size":33554432}`)
	noImage     = missing("rbd image-meta get p/purser.vol")
	noName      = missing("rbd image-meta get p/purser-names")
	unwatched   = answer("rbd status", `{"watchers":[]}`)
	rest        = answer("rbd", "")
)

func TestRunsOfImages(t *testing.T) {
	for name, r := range map[string]runs{
		"CreateVolume": {
			script: []step{noImage, rest},
			do:     func(w *whole) error { return w.createVolume(images, nil) },
			want:   rounds{{"rbd image-meta get p/purser.vol"}, {"rbd create p/purser.vol"}, {"rbd image-meta set p/purser.vol purser"}},
		},
		"CreateVolume of a volume": {
			script: []step{noImage, recordOfImg, infoOfImg, answer("rbd image-meta list", `{"purser":`+quoted(recordOfSource)+`}`), rest},
			do:     func(w *whole) error { return w.createVolume(images, ofVolume(idOf(sourceImage))) },
			want: rounds{
				{"rbd image-meta get p/purser.vol", "rbd image-meta get p/purser.src"},
				{meanwhile, "rbd info p/purser.src"},
				{"rbd snap create", "rbd info p/purser.src"},
				{"rbd clone"},
				{"rbd image-meta list p/purser.vol", "rbd info p/purser.vol"},
				{"rbd snap rm"},
				{"rbd image-meta set p/purser.vol purser"},
			},
		},
		"CreateVolume of a snapshot": {
			script: []step{noImage, answer("rbd snap ls", snapsOf), answer("rbd image-meta get p/purser.src", `{"format":1,"name":"snap"}`), infoOfImg, answer("rbd image-meta list", `{}`), rest},
			do:     func(w *whole) error { return w.createVolume(images, ofSnapshot(idOf(imageSnap))) },
			want: rounds{
				{"rbd image-meta get p/purser.vol", "rbd snap ls p/purser.src"},
				{meanwhile, "rbd image-meta get p/purser.src"},
				{"rbd snap ls p/purser.src"},
				{"rbd info p/purser.src"},
				{"rbd clone"},
				{"rbd image-meta list p/purser.vol"},
				{"rbd image-meta set p/purser.vol purser"},
			},
		},
		"CreateSnapshot": {
			script: []step{once(answer("rbd snap ls", `[]`)), answer("rbd snap ls", snapsOf), answer("rbd ls", `["purser.src"]`), recordOfImg, infoOfImg, noName, rest},
			do:     createSnapshot(idOf(sourceImage)),
			want: rounds{
				{"rbd snap ls p/purser.src", "rbd image-meta get p/purser.src"},
				{meanwhile, "rbd ls p", "rbd info p/purser.src"},
				{"rbd image-meta get p/purser-names"},
				{"rbd image-meta set p/purser-names", "rbd image-meta set p/purser.src"},
				{"rbd snap create"},
				{"rbd snap ls p/purser.src"},
			},
		},
		"CreateVolumeGroupSnapshot": groupOfImages(),
		"DeleteSnapshot": {
			script: []step{answer("rbd snap ls", snapsOf), answer("rbd trash ls", `[]`), rest},
			do:     deleteSnapshot(idOf(imageSnap)),
			want: rounds{
				{"rbd snap ls p/purser.src"},
				{"rbd image-meta remove p/purser-names", "rbd snap rm"},
				{"rbd image-meta remove p/purser.src"},
				{"rbd trash ls"}, // once in ten minutes
			},
		},
		"DeleteVolume": {
			script: []step{infoOfImg, answer("rbd snap ls", `[]`), unwatched, answer("rbd trash ls", `[]`), rest},
			do:     deleteVolume(idOf(image)),
			want: rounds{
				{"rbd info p/purser.vol", "rbd snap ls p/purser.vol", "rbd status p/purser.vol"},
				{"rbd trash mv"},
				{"rbd trash rm"},
				{"rbd trash ls"}, // once in ten minutes
			},
		},
		"ControllerExpandVolume": {
			script: []step{recordOfImg, infoOfImg, rest},
			do:     expand(idOf(sourceImage)),
			want:   rounds{{"rbd image-meta get"}, {"rbd info"}, {"rbd resize"}},
		},
		"NodeStageVolume of a raw device": {
			script: []step{unwatched, noImage, answer("rbd device map", "/dev/rbd0"), rest},
			do:     func(w *whole) error { return w.stage(idOf(image), true) },
			want:   rounds{{"rbd status"}, {"rbd device map"}, {"rbd status"}, {"rbd image-meta get"}},
		},
	} {
		t.Run(name, func(t *testing.T) { r.check(t) })
	}
}

func groupOfImages() runs {
	other := handle.Volume(imagePlace, "zzz")
	group := handle.Group(sourceImage, "snap")
	snaps := `[{"id":3,"size":33554432,"namespace":{"type":"group","group":"purser.src.` + group.Snap + `"}}]`
	return runs{
		script: []step{
			once(answer("rbd snap ls", `[]`)), answer("rbd snap ls", snaps), answer("rbd ls", `["purser.src","purser.zzz"]`), recordOfImg,
			answer("rbd image-meta get p/purser.zzz", `{"format":1,"name":"zzz"}`), infoOfImg, noName, rest,
		},
		do: func(w *whole) error {
			_, err := w.CreateVolumeGroupSnapshot(w.t.Context(), &csi.CreateVolumeGroupSnapshotRequest{
				Name: "snap", SourceVolumeIds: []string{idOf(sourceImage), idOf(other)}, Secrets: secrets,
			})
			return err
		},
		want: rounds{
			{"rbd snap ls p/purser.src", "rbd image-meta get p/purser.src", "rbd image-meta get p/purser.zzz"},
			{meanwhile, "rbd ls p", "rbd info p/purser.src", "rbd info p/purser.zzz"},
			{"rbd image-meta get p/purser-names"},
			{"rbd image-meta set p/purser-names", "rbd image-meta set p/purser.src", "rbd image-meta set p/purser.zzz"},
			{meanwhile, "rbd image-meta set p/purser.src"},
			{"rbd group create"},
			{"rbd group snap rm"},
			{"rbd group image add"},
			{"rbd group image add"},
			{"rbd group snap create"},
			{"rbd group image rm"},
			{"rbd group image rm"},
			{"rbd snap ls p/purser.src", "rbd snap ls p/purser.zzz"},
		},
	}
}

// The first time that an image is mounted: its filesystem is made.
func TestRunsOfMountingAnImage(t *testing.T) {
	w := newWhole(t)
	w.tools.Script(unwatched, noImage, answer("rbd device map", w.device()), answer("rbd diff", `[]`), rest)
	w.tools.Expect(
		[]string{"rbd status"}, []string{"rbd device map"}, []string{"rbd status"}, []string{"rbd image-meta get"},
		[]string{"rbd diff"}, []string{"rbd image-meta set p/purser.vol purser.formatting"}, []string{"rbd image-meta remove p/purser.vol purser.formatting"},
	)
	if err := w.stage(idOf(image), false); err != nil {
		t.Error(err)
	}
	w.tools.CheckExpected()
}

var (
	folderPlace  = handle.Place{Kind: handle.CephFS, Cluster: "ceph", Pool: "fs"}
	folders      = map[string]string{"kind": "cephfs", "fsName": "fs"}
	folder       = handle.Volume(folderPlace, "vol")
	sourceFolder = handle.Volume(folderPlace, "src")
	folderSnap   = handle.Snapshot(sourceFolder, "snap")
	recordOfDir  = answer("ceph fs subvolume metadata get fs src", recordOfSource)
	infoOfDir    = answer("ceph fs subvolume info", `{"bytes_quota":33554432,"path":"/volumes/purser/vol"}`)
	noFolder     = once(missing("ceph fs subvolume info fs vol"))
	noClone      = once(missing("ceph fs clone status"))
	cloned       = answer("ceph fs clone status", `{"status":{"state":"complete"}}`)
	created      = answer("ceph fs subvolume snapshot info", `{"created_at":"2026-11-22 08:44:01.123456"}`)
	others       = answer("ceph", "")
)

func TestRunsOfSubvolumes(t *testing.T) {
	const vol, src = " fs vol", " fs src"
	for name, r := range map[string]runs{
		"CreateVolume": {
			script: []step{noFolder, others},
			do:     func(w *whole) error { return w.createVolume(folders, nil) },
			want:   rounds{{"ceph fs subvolume info" + vol}, {"ceph fs subvolume create" + vol}, {"ceph fs subvolume metadata set" + vol}},
		},
		"CreateVolume of a volume": {
			script: []step{noFolder, infoOfDir, recordOfDir, noClone, cloned, others},
			do:     func(w *whole) error { return w.createVolume(folders, ofVolume(idOf(sourceFolder))) },
			want: rounds{
				{"ceph fs subvolume info" + vol, "ceph fs subvolume info" + src},
				{meanwhile, "ceph fs subvolume metadata get" + src},
				{"ceph fs clone status" + vol},
				{"ceph fs subvolume snapshot create" + src},
				{"ceph fs subvolume snapshot clone" + src},
				{"ceph fs clone status" + vol},
				{"ceph fs subvolume info" + vol, "ceph fs subvolume snapshot rm" + src},
				{"ceph fs subvolume metadata set" + vol},
			},
		},
		"CreateVolume of a snapshot": {
			script: []step{noFolder, infoOfDir, created, answer("ceph fs subvolume snapshot metadata get", `{"format":1,"name":"snap","bytes":33554432}`), noClone, cloned, others},
			do:     func(w *whole) error { return w.createVolume(folders, ofSnapshot(idOf(folderSnap))) },
			want: rounds{
				{"ceph fs subvolume info" + vol, "ceph fs subvolume snapshot info" + src},
				{meanwhile, "ceph fs subvolume snapshot metadata get" + src},
				{"ceph fs clone status" + vol},
				{"ceph fs subvolume snapshot clone" + src},
				{"ceph fs clone status" + vol},
				{"ceph fs subvolume info" + vol},
				{"ceph fs subvolume metadata set" + vol},
			},
		},
		"CreateSnapshot": {
			script: []step{once(missing("ceph fs subvolume snapshot info")), created, infoOfDir, recordOfDir, missing("ceph fs subvolume metadata get fs _names"), others},
			do:     createSnapshot(idOf(sourceFolder)),
			want: rounds{
				{"ceph fs subvolume snapshot info" + src, "ceph fs subvolume info" + src},
				{meanwhile, "ceph fs subvolume metadata get" + src},
				{"ceph fs subvolume metadata get fs _names"},
				{"ceph fs subvolume metadata set fs _names"},
				{"ceph fs subvolume snapshot create" + src},
				{"ceph fs subvolume snapshot metadata set" + src, "ceph fs subvolume snapshot info" + src},
			},
		},
		"DeleteSnapshot": {
			script: []step{others},
			do:     deleteSnapshot(idOf(folderSnap)),
			want:   rounds{{"ceph fs subvolume snapshot rm" + src}, {"ceph fs subvolume metadata rm fs _names"}},
		},
		"DeleteVolume": {
			script: []step{others},
			do:     deleteVolume(idOf(folder)),
			want:   rounds{{"ceph fs subvolume rm" + vol}},
		},
		"ControllerExpandVolume": {
			script: []step{infoOfDir, recordOfDir, others},
			do:     expand(idOf(sourceFolder)),
			want:   rounds{{"ceph fs subvolume info"}, {"ceph fs subvolume metadata get"}, {"ceph fs subvolume info"}, {"ceph fs subvolume resize"}},
		},
		"NodeStageVolume": {
			script: []step{infoOfDir, answer("mount.ceph", "")},
			do:     func(w *whole) error { return w.stage(idOf(folder), false) },
			want:   rounds{{"ceph fs subvolume info" + vol}, {"mount.ceph"}},
		},
	} {
		t.Run(name, func(t *testing.T) { r.check(t) })
	}
}
