package driver

import (
	"regexp"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// A driver that cannot start reports what is missing, and the state directory can still have
// another backend.
func TestCephDoesNotStartWithoutACluster(t *testing.T) {
	d, state := New(), t.TempDir()
	d.Backend, d.Ceph.ConfDir = backendCeph, t.TempDir()
	choice, err := d.chooseBackend(state)
	if err == nil || !strings.Contains(err.Error(), "--backend=ceph: ") || choice.kind != "" {
		t.Errorf("chose %+v, %v, want what is missing", choice, err)
	}
	if kind, err := beganWith(state); kind != "" || err != nil {
		t.Errorf("the state directory is one of %s, %v", kind, err)
	}
}

// A driver that has volumes starts all the same, since they have to be unstaged.
func TestCephWithVolumesStartsWithoutACluster(t *testing.T) {
	d, state := New(), t.TempDir()
	if err := keepKind(state, backendCeph); err != nil {
		t.Fatal(err)
	}
	d.Ceph.ConfDir = t.TempDir()
	choice, err := d.chooseBackend(state)
	if err != nil || choice.kind != backendCeph {
		t.Fatalf("chose %+v, %v", choice, err)
	}
	b, err := d.newBackend(choice.kind, state)
	if _, isStager := b.(backend.Stager); err != nil || !isStager {
		t.Errorf("newBackend = %T, %v", b, err)
	}
}

// The help lists what the backend accepts.
func TestTheHelpKnowsEveryParameterOfCeph(t *testing.T) {
	d := New()
	b, err := d.newBackend(backendCeph, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"rbd", "cephfs"} {
		err := b.CheckParameters(map[string]string{"kind": kind, "unknown": ""})
		if err == nil {
			t.Fatal("an unknown parameter was accepted")
		}
		_, known, _ := strings.Cut(err.Error(), "volumes have")
		keys := regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(known, -1)
		if len(keys) < 4 {
			t.Errorf("the backend names %d parameters of kind %s: %v", len(keys), kind, err)
		}
		for _, key := range keys {
			if !strings.Contains(cephHelp, "\n  "+key[1]+" ") {
				t.Errorf("parameter %s of kind %s is not in the help", key[1], kind)
			}
		}
	}
}
