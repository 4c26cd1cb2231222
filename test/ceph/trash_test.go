package ceph

import (
	"strings"
	"testing"
)

// The cluster can make a clone independent by itself, and does not tell that its
// parent can go. The next deletion looks.
func TestAParentGoesAfterItsLastCloneIsIndependent(t *testing.T) {
	r := newRig(t)
	parent, other := r.create(r.request("parent", images)), r.create(r.request("other", images))
	clone := r.create(r.request("clone", images, cloneOf(parent.ID)))
	r.delete(parent.ID)
	wantTrash(t, "purser.parent")
	r.restart() // the last look was a moment ago
	r.delete(r.create(r.request("before", images)).ID)
	wantTrash(t, "purser.parent")

	if _, err := shared.Run(t.Context(), "rbd", "flatten", "--no-progress", imageOf(clone.ID)); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.delete(other.ID)
	wantTrash(t)
	r.delete(clone.ID)
	wantEmptyPool(t)
}

// The trash of other programs is not ours to empty.
func TestTrashOfOtherProgramsStays(t *testing.T) {
	r := newRig(t)
	for _, step := range [][]string{{"rbd", "create", pool + "/theirs", "--size=1M"}, {"rbd", "trash", "mv", pool + "/theirs"}} {
		if _, err := shared.Run(t.Context(), step...); err != nil {
			t.Fatal(err)
		}
	}
	r.delete(r.create(r.request("ours", images)).ID)
	wantTrash(t, "theirs")
	if _, err := shared.Run(t.Context(), "rbd", "trash", "purge", "--no-progress", pool); err != nil {
		t.Fatal(err)
	}
}

// wantTrash wants an image of each name in the trash, and nothing else.
func wantTrash(t *testing.T, names ...string) {
	t.Helper()
	out, err := shared.Run(t.Context(), "rbd", "trash", "ls", pool)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(out) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		have = append(have, name)
	}
	if strings.Join(have, " ") != strings.Join(names, " ") {
		t.Errorf("in the trash: %q, want %q", have, names)
	}
}
