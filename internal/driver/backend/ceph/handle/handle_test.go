package handle

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/purser-csi/purser/internal/driver/fault"
)

var place = Place{Kind: RBD, Cluster: "ceph", Pool: "rbd"}

func TestIDs(t *testing.T) {
	dotted := Place{Kind: CephFS, Cluster: "f0f0f0f0-0000-1111-2222-333344445555", Pool: "my.fs_1"}
	volume := Volume(place, "pvc-4f1a7c9e")
	tests := []struct {
		object Object
		want   string
	}{
		{volume, "rbd.ceph.rbd.pvc-4f1a7c9e"},
		{Snapshot(volume, "a"), "rbdsnap.ceph.rbd.pvc-4f1a7c9e.s" + digest("a")},
		{Group(volume, "a"), "rbdgroup.ceph.rbd.pvc-4f1a7c9e.g" + digest("a")},
		{Member(volume, Group(volume, "a")), "rbdsnap.ceph.rbd.pvc-4f1a7c9e.g" + digest("a")},
		{Volume(dotted, "v"), "fs.f0f0f0f0-0000-1111-2222-333344445555.my_2efs_5f1.v"},
		{Snapshot(Volume(dotted, "v"), "a"), "fssnap.f0f0f0f0-0000-1111-2222-333344445555.my_2efs_5f1.v.s" + digest("a")},
		{Volume(place, "Ein Gefäß"), "rbd.ceph.rbd.x-" + digest("Ein Gefäß")},
	}
	for _, test := range tests {
		id, err := test.object.ID()
		if err != nil || id.String() != test.want {
			t.Errorf("ID = %s, %v, want %s", id, err, test.want)
		}
		if got, err := Parse(test.want); err != nil || got != test.object {
			t.Errorf("Parse(%s) = %+v, %v, want %+v", test.want, got, err, test.object)
		}
	}
}

func TestParseRefusesWhatNoRequestMakes(t *testing.T) {
	for _, text := range []string{
		"", "rbd", "some-volume", "rbd.ceph.rbd", "rbd.ceph.rbd.a.b", "rbd..rbd.a", "rbd.ceph..a", "rbd.ceph.rbd.",
		"rbd.CEPH.rbd.a", "rbd.ceph.-rbd.a", "rbd.ceph.rbd.-a", "rbd.ceph.rbd.A", "rbd.ceph.rb_64.a", "rbd._2e_2e.rbd.a",
		"rbd.ceph.rbd.a_2f", "rbd.ceph.rbd.x-short", "rbdsnap.ceph.rbd.a.b", "fssnap.ceph.fs.a.g" + digest("a"),
		"rbdgroup.ceph.rbd.a.s" + digest("a"), "nfs.ceph.rbd.a", "rbd.ceph.rbd.a\n", "rbd.ceph.rbd_2.a",
	} {
		if o, err := Parse(text); !fault.NotFound.Is(err) {
			t.Errorf("Parse(%q) = %+v, %v, want not found", text, o, err)
		}
	}
}

// A place that Check accepts has room for every id: a class must not work for
// volumes and fail for their snapshots.
func TestEveryPlaceHasRoomForEveryID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Place{
			Kind:    rapid.SampledFrom([]Kind{RBD, CephFS}).Draw(t, "kind"),
			Cluster: rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,39}`).Draw(t, "cluster"),
			Pool:    rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9._-]{0,47}`).Draw(t, "pool"),
		}
		if p.Check() != nil {
			t.Skip("too long")
		}
		volume := Volume(p, rapid.StringMatching(`[a-z0-9-]{30,45}|.{0,128}`).Draw(t, "name"))
		objects := []Object{volume, Snapshot(volume, "s")}
		if p.Kind == RBD {
			objects = append(objects, Group(volume, "g"), Member(volume, Group(volume, "g")))
		}
		for _, o := range objects {
			id, err := o.ID()
			if err != nil {
				t.Fatalf("%+v has no id: %v", o, err)
			}
			if again, err := Parse(id.String()); err != nil || again != o {
				t.Fatalf("Parse(%s) = %+v, %v, want %+v", id, again, err, o)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	tests := map[string]Place{
		"clusterID": {Kind: RBD, Cluster: "../etc", Pool: "rbd"},
		"pool is":   {Kind: RBD, Cluster: "ceph"},
		"fsName is": {Kind: CephFS, Cluster: "ceph"},
		"pool \"-":  {Kind: RBD, Cluster: "ceph", Pool: "-rbd"},
		"room for":  {Kind: RBD, Cluster: strings.Repeat("c", 30), Pool: strings.Repeat("p", 20)},
	}
	for want, p := range tests {
		if err := p.Check(); !fault.Invalid.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want invalid with %q", p, err, want)
		}
	}
	if err := place.Check(); err != nil {
		t.Error(err)
	}
}

func TestTwoNamesNeverShareAnObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.String().Draw(t, "first")
		second := rapid.OneOf(rapid.String(), rapid.Just(nameOf(first))).Draw(t, "second")
		if first != second && nameOf(first) == nameOf(second) {
			t.Fatalf("%q and %q are both %s", first, second, nameOf(first))
		}
	})
}
