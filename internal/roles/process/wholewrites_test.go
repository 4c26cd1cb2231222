package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/version"
)

func TestTypesCover(t *testing.T) {
	for _, test := range []struct {
		major, minor string
		want         bool
	}{
		{"1", fmt.Sprint(typesMinor), true},
		{"1", fmt.Sprint(typesMinor - 1), true},
		{"1", fmt.Sprint(typesMinor) + "+", true},
		{"1", "29-gke", true},
		{"1", fmt.Sprint(typesMinor + 1), false},
		{"1", fmt.Sprint(typesMinor+1) + "+", false},
		{"2", "0", false},
		{"", "", false},
		{"1", "", false},
	} {
		if got := typesCover(&version.Info{Major: test.major, Minor: test.minor}); got != test.want {
			t.Errorf("%s.%s: %v", test.major, test.minor, got)
		}
	}
}

// typesMinor is the minor version of the k8s.io modules in go.mod.
func TestTypesMinor(t *testing.T) {
	modules, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("k8s.io/api v0.%d.", typesMinor); !strings.Contains(string(modules), want) {
		t.Errorf("go.mod does not have %q", want)
	}
}

type versions struct {
	info *version.Info
	err  error
}

func (v *versions) ServerVersion() (*version.Info, error) { return v.info, v.err }

// Whole objects are no longer written after an upgrade of the API server, or when it does not
// answer.
func TestWholeWritesEnd(t *testing.T) {
	server := &versions{}
	w := &wholeWrites{server: server}
	for _, step := range []struct {
		versions
		want bool
	}{
		{versions{err: errors.New("away")}, false},
		{versions{info: &version.Info{Major: "1", Minor: fmt.Sprint(typesMinor)}}, true},
		{versions{info: &version.Info{Major: "1", Minor: fmt.Sprint(typesMinor + 1)}}, false},
		{versions{info: &version.Info{Major: "1", Minor: fmt.Sprint(typesMinor)}}, true},
		{versions{err: errors.New("away")}, false},
	} {
		*server = step.versions
		if w.look(logr.Discard()); w.may.Load() != step.want {
			t.Errorf("%+v: %v", step.versions, w.may.Load())
		}
	}
}
