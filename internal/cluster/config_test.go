package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigListsEveryMistake(t *testing.T) {
	other := lockDir(t, t.TempDir())
	defer release(t, other)
	_, err := Start(t.Context(), Config{
		Lock:       other,
		Binaries:   Binaries{"etcd": "bin/etcd", "kubelet": "/bin/true", "kube-apiserver": "/bin/true"},
		Components: Components{"kubelet"},
		ExtraArgs:  map[Component][]string{Scheduler: {"--v=4"}},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"set Dir",
		"the lock is on " + other.dir,
		`component "kubelet" is not optional or unknown`,
		`the path of etcd is "bin/etcd", not an absolute path`,
		`extra arguments for "kube-scheduler", which does not run`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q:\n%v", want, err)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	cfg, err := Config{Dir: "data", Binaries: Binaries{"etcd": "/e", "kube-apiserver": "/a"}}.normalize()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(cfg.Dir, "/") {
		t.Errorf("Dir %q is not absolute", cfg.Dir)
	}
	want := append(HousekeepingControllers(), VolumeControllers()...)
	if diff := cmp.Diff(want, cfg.Controllers); diff != "" {
		t.Error(diff)
	}
	cfg.Progress(Step{}) // silence is not nil
}
