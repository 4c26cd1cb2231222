package explain

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/printable"
	command "github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/test/fuzzing"
)

// commands are those that print a dump from standard input.
var commands = [][]string{
	{"explain"},
	{"explain", "-A"},
	{"explain", "-o", "json"},
	{"explain", "-o", "yaml"},
	{"explain", "pvc/c", "-n", "n"},
	{"explain", "pod/c", "-n", "n"},
	{"explain", "pv/pv"},
	{"explain", "ns/n"},
	{"tree"},
	{"tree", "pvc/c", "-n", "n"},
}

// printDump prints a dump with each command. Whatever the dump has, no output and no error has a character
// that a terminal acts on.
func printDump(t *testing.T, dump []byte) {
	t.Helper()
	for _, args := range commands {
		var out bytes.Buffer
		for _, c := range command.New(command.Streams{In: bytes.NewReader(dump), Out: &out}) {
			if c.Name() != args[0] {
				continue
			}
			c.SetArgs(append(args[1:], "--from", "-", "--now", now))
			c.SilenceUsage, c.SilenceErrors = true, true
			text := ""
			if err := c.ExecuteContext(t.Context()); err != nil {
				text = command.ErrorText(err)
			}
			if text += out.String(); printable.Text(text) != text {
				t.Errorf("%v prints %q", args, text)
			}
		}
	}
}

const evil = "\x1b]0;title\a\x1b[2J\u202e\u009b31m\r\xff"

// FuzzDumpText: no text in place of a dump makes a command panic or print what a terminal acts on.
func FuzzDumpText(f *testing.F) {
	base, all := readSituations(f)
	for _, s := range all[:12] {
		text, err := os.ReadFile(s.dump(f, base))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		escaped, err := json.Marshal(evil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.ReplaceAll(text, []byte(`"disk.example.com"`), escaped))
	}
	for _, text := range []string{"", "{", "[]", "---\n---\n", "kind: List\nitems: [1]", "kind: " + evil, `{"kind":"List","items":[{"kind":"Pod"}]}`, "a: &a [*a]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, dump []byte) { printDump(t, dump) })
}

// FuzzDumpObjects: nor do objects with missing, empty and odd fields.
func FuzzDumpObjects(f *testing.F) {
	for _, raw := range []string{
		"", "\x05\x00\x01\x02\x03\x04\x01\x01\x01\x01\x02\x01\x01\x01\x03\x01\x01\x01\x01\x06\x02\x03\x04\x01\x01\x01\x01\x01",
		"\x0c\x00\x01\x01\x02\x01\x01\x02\x01\x03\x01\x02\x04\x01\x05\x01\x02\x06\x01\x02\x03\x07\x01\x02\x03\x00\x01\x02\x03\x01\x02\x03\x04",
	} {
		f.Add([]byte(raw), evil)
		f.Add([]byte(raw), "c")
	}
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		in := fuzzing.New(raw, append(dumpWords, text)...)
		var items []any
		for range in.Byte() % 16 {
			if item := dumpObject(in); item != nil {
				items = append(items, item)
			}
		}
		dump, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
		if err != nil {
			t.Skip("an object cannot be encoded")
		}
		printDump(t, dump)
	})
}

var dumpWords = []string{
	"c", "", "n", "pv", "now", "later", "disk.example.com", "node-a", "u", "Bound", "Pending", "Released", "Delete", "Retain", "WaitForFirstConsumer",
	"ReadWriteOnce", "ReadWriteOncePod", names.AnnStorageProvisioner, names.AnnSelectedNode, names.FinalizerPVCProtection, names.FinalizerVolume,
	"ProvisioningFailed", "VolumeResizeFailed", "FailedMount", "FailedAttachVolume", "VolumeFailedDelete", "PersistentVolumeClaim", "Pod", "PersistentVolume",
	"exceeded quota: q, requested: requests.storage=1Gi", "rpc error: code = Internal desc = x", `secrets "s" is forbidden: User "u" cannot get resource "secrets" in API group "" in the namespace "n"`,
}

// dumpObject returns an object with its kind; nil at the end of the input.
func dumpObject(in *fuzzing.Reader) any {
	kind := func(kind string) schema.GroupVersionKind { return schema.FromAPIVersionAndKind(groups[kind], kind) }
	switch in.Byte() % 9 {
	case 1:
		if o := in.Claim(); o != nil {
			o.SetGroupVersionKind(kind("PersistentVolumeClaim"))
			return o
		}
	case 2:
		if o := in.Volume(); o != nil {
			o.SetGroupVersionKind(kind("PersistentVolume"))
			return o
		}
	case 3:
		if o := in.Class(); o != nil {
			o.SetGroupVersionKind(kind("StorageClass"))
			return o
		}
	case 4:
		if o := in.Attachment(); o != nil {
			o.SetGroupVersionKind(kind("VolumeAttachment"))
			return o
		}
	case 5:
		if o := in.Node(); o != nil {
			o.SetGroupVersionKind(kind("Node"))
			return o
		}
	case 6:
		o := &corev1.Pod{ObjectMeta: in.Meta()}
		o.SetGroupVersionKind(kind("Pod"))
		o.Spec.NodeName, o.Status.Phase = in.Text(), corev1.PodPhase(in.Text())
		for range in.Byte() % 3 {
			o.Spec.Volumes = append(o.Spec.Volumes, corev1.Volume{Name: in.Text(), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: in.Text()},
			}})
		}
		return o
	case 7:
		o := &corev1.Event{ObjectMeta: in.Meta(), Reason: in.Text(), Message: in.Text(), LastTimestamp: in.Time()}
		o.SetGroupVersionKind(kind("Event"))
		o.InvolvedObject = corev1.ObjectReference{Kind: in.Text(), Namespace: in.Text(), Name: in.Text()}
		o.Source = corev1.EventSource{Component: in.Text(), Host: in.Text()}
		return o
	case 8:
		o := &storagev1.CSIStorageCapacity{ObjectMeta: in.Meta(), StorageClassName: in.Text()}
		o.SetGroupVersionKind(kind("CSIStorageCapacity"))
		if in.Bool() {
			o.Capacity = new(in.Quantity())
		}
		return o
	}
	return nil
}
