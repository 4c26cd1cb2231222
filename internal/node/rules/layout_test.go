package mounting

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// 5.4: paths and contents are what a kubelet has. The sums are those of coreutils' sha256sum.
func TestLayout(t *testing.T) {
	l := Layout{Root: "/var/lib/kubelet"}
	key := Key{Driver: "d.example.com", Handle: "a/b"}
	fs, dev := ID{Pod: "uid", Spec: "pv/1", Mode: Filesystem}, ID{Pod: "uid", Spec: "pv", Mode: Block}
	const sum = "c14cddc033f64b9dea80ea675cf280a015e672516090a5626781153dc68fea11"
	for got, want := range map[string]string{
		l.Stage(key, fs.Device()):  "/var/lib/kubelet/plugins/kubernetes.io/csi/d.example.com/" + sum + "/globalmount",
		l.Target(fs):               "/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pv~1/mount",
		l.Stage(key, dev.Device()): "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/staging/pv",
		l.Target(dev):              "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv/uid",
		l.BlockMap(dev):            "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv/dev/uid",
		l.BlockData("pv"):          "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv/data",
		l.BlockLink(dev):           "/var/lib/kubelet/pods/uid/volumeDevices/kubernetes.io~csi/pv",
		l.Registrations():          "/var/lib/kubelet/plugins_registry",
		Unescape("pv~1"):           "pv/1",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// 5.4: the metadata files.
func TestMetadata(t *testing.T) {
	key, inlined := Key{Driver: "d", Handle: "h"}, Key{Driver: "d", Pod: "u", Name: "v"}
	for row, tc := range map[string]struct {
		m    Metadata
		want string
	}{
		"stage":   {StageMetadata(key), `{"driverName":"d","volumeHandle":"h"}` + "\n"},
		"publish": {PublishMetadata(key, ID{Spec: "pv"}, "n"), `{"attachmentID":"` + key.attachment("n") + `","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h","volumeLifecycleMode":"Persistent"}` + "\n"},
		"inline": {PublishMetadata(inlined, ID{Pod: "u", Spec: "v"}, "n"), `{"attachmentID":"` + inlined.attachment("n") + `","driverName":"d","nodeName":"n","specVolID":"v","volumeHandle":"` +
			inlined.VolumeID() + `","volumeLifecycleMode":"Ephemeral"}` + "\n"},
		"block": {BlockMetadata(key, "pv", "n"), `{"attachmentID":"` + key.attachment("n") + `","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h"}` + "\n"},
	} {
		content, err := tc.m.Encode()
		if err != nil || string(content) != tc.want {
			t.Errorf("%s: %s, %v; want %s", row, content, err, tc.want)
		}
		back, err := ParseMetadata(content)
		if err != nil || back != tc.m {
			t.Errorf("%s: read back as %v, %v", row, back, err)
		}
	}
	if got := (Metadata{Driver: "d", Spec: "v", Handle: "csi-x", Lifecycle: "Ephemeral"}).Key(types.UID("u")); got != inlined {
		t.Errorf("inline key %v", got)
	}
	for _, bad := range []string{"", "[]", "{}", `{"driverName":"d"}`, `{"driverName":1}`} {
		if _, err := ParseMetadata([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
