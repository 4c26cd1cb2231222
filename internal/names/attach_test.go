package names

import "testing"

// AT-N1: the finalizer of a driver.
func TestAttacherFinalizer(t *testing.T) {
	for driver, want := range map[string]string{
		"ebs.csi.aws.com": "external-attacher/ebs-csi-aws-com", "a_b.": "external-attacher/a-b-X", "x": "external-attacher/x",
	} {
		if got := AttacherFinalizer(driver); got != want {
			t.Errorf("%s: got %s, want %s", driver, got, want)
		}
	}
}

// C8 and 4.10: a handle may have the separator in it.
func TestUniqueVolumeName(t *testing.T) {
	for _, handle := range []string{"h", "a^b", "a/b^^c", "^"} {
		driver, got, ok := ParseUniqueVolumeName(UniqueVolumeName("d.example.com", handle))
		if !ok || driver != "d.example.com" || got != handle {
			t.Errorf("%q: got %q %q %t", handle, driver, got, ok)
		}
	}
	for _, name := range []string{"", "kubernetes.io/csi/", "kubernetes.io/csi/d", "kubernetes.io/csi/^h", "kubernetes.io/csi/d^", "x^y"} {
		if _, _, ok := ParseUniqueVolumeName(name); ok {
			t.Errorf("%q was accepted", name)
		}
	}
}

// C7: the name of a VolumeAttachment is that of upstream.
func TestAttachmentName(t *testing.T) {
	const want = "csi-" + "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // sha256("abc")
	if got := AttachmentName("a", "b", "c"); got != want {
		t.Errorf("got %s", got)
	}
}
