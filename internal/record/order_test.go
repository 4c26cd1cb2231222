package record

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// Changes that arrive in parts come into the same order as all of them at once.
func TestExtend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		index, all := life.NewIndex(nil), []life.Change(nil)
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			var part []life.Change
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				part = append(part, drawnChange(t, len(all)+len(part)))
			}
			all = append(all, part...)
			extend(index, part)
		}
		want, got := textOf(ordered(all)), textOf(index.Changes())
		if want != got {
			t.Fatalf("got\n%s, want\n%s", got, want)
		}
	})
}

// drawnChange is one of the first list, of an event, of an object without a number, or of another one.
func drawnChange(t *rapid.T, n int) life.Change {
	version := strconv.Itoa(rapid.IntRange(1, 12).Draw(t, "version"))
	c := life.Change{
		At: start.Add(time.Duration(rapid.IntRange(0, 8).Draw(t, "at")) * time.Second), Kind: explain.Claim,
	}
	name := fmt.Sprint("c", n)
	switch rapid.IntRange(0, 9).Draw(t, "sort") {
	case 0:
		c.Existed = true
	case 1:
		c.Kind = explain.Event
		c.Object = &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
		return c
	case 2:
		version = "odd"
	}
	c.Object = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	return c
}

func textOf(changes []life.Change) (text string) {
	for _, c := range changes {
		text += fmt.Sprintf(
			"%s %s %s at %s\n", c.Kind, c.Object.GetName(), c.Object.GetResourceVersion(), c.At.Format(time.TimeOnly),
		)
	}
	return text
}
