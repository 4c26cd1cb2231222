package live

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/yaml"

	csidriver "github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/roles"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/roles/plane"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecars"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/internal/roles/ui"
)

// manifest reads the objects of a file. An unknown field or kind is an error, except
// the kinds of snapshots: they are not part of Kubernetes, and are skipped.
func manifest(t *testing.T, path string) (objects []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) && strings.Contains(string(document), "snapshot.storage.k8s.io/v1") {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		objects = append(objects, object)
	}
}

// The flags of the manifest are those of the program, and the driver would start with them.
func TestTheDriversManifest(t *testing.T) {
	for _, object := range manifest(t, filepath.Join("..", "..", "deploy", "driver.yaml")) {
		set, ok := object.(*appsv1.DaemonSet)
		if !ok {
			continue
		}
		for _, container := range set.Spec.Template.Spec.Containers {
			checkCommandLine(t, container)
			checkImage(t, container)
			for _, mount := range container.VolumeMounts {
				if !hasVolume(set.Spec.Template.Spec, mount.Name) {
					t.Errorf("%s mounts %s, which the pod does not have", container.Name, mount.Name)
				}
			}
		}
		return
	}
	t.Error("there is no DaemonSet")
}

func hasVolume(pod corev1.PodSpec, name string) bool {
	for _, volume := range pod.Volumes {
		if volume.Name == name {
			return true
		}
	}
	return false
}

// The image of the manifest has its programs at the paths of deploy/Dockerfile. It is pulled only
// if it is not on the node, since no registry has it.
func checkImage(t *testing.T, container corev1.Container) {
	t.Helper()
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	_, stage, _ := strings.Cut(string(dockerfile), " AS purser\n")
	if len(container.Command) != 1 || !strings.Contains(stage, fmt.Sprintf("COPY --from=build /purser %s\nENTRYPOINT [%[1]q]\n", container.Command[0])) {
		t.Errorf("%s runs %q, the image is\n%s", container.Name, container.Command, stage)
	}
	if container.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("%s: pull policy %q", container.Name, container.ImagePullPolicy)
	}
}

// flaggedRole is a role with flags of its own.
type flaggedRole interface {
	AddFlags(f *pflag.FlagSet)
	Validate() error
}

func checkCommandLine(t *testing.T, container corev1.Container) {
	t.Helper()
	for _, c := range ui.New(explain.Streams{}) {
		if c.Name() == container.Args[0] {
			if err := c.ParseFlags(container.Args[1:]); err != nil {
				t.Errorf("%s: %v", container.Name, err)
			}
			return
		}
	}
	flags := pflag.NewFlagSet(container.Name, pflag.ContinueOnError)
	build, ok := map[string]func() flaggedRole{
		"driver":              func() flaggedRole { return driver.New() },
		"csi-provisioner":     func() flaggedRole { return provisioner.New() },
		"csi-attacher":        func() flaggedRole { return attacher.New() },
		"csi-resizer":         func() flaggedRole { return resizer.New() },
		"csi-snapshotter":     func() flaggedRole { return snapshotter.New() },
		"snapshot-controller": func() flaggedRole { return snapshotter.NewController() },
		"sidecars":            func() flaggedRole { return sidecars.New() },
		"plane":               func() flaggedRole { return plane.New() },
		"controllers":         func() flaggedRole { return controllers.New() },
	}[container.Args[0]]
	if !ok {
		t.Fatalf("%s runs %q", container.Name, container.Args)
	}
	checked := build()
	checked.AddFlags(flags)
	args := make([]string, 0, len(container.Args))
	for _, arg := range container.Args[1:] {
		args = append(args, strings.ReplaceAll(arg, "$(NODE_NAME)", "node"))
	}
	if err := flags.Parse(args); err != nil {
		t.Errorf("%s: %v", container.Name, err)
		return
	}
	if err := checked.Validate(); err != nil {
		t.Errorf("%s: %v", container.Name, err)
	}
}

// Upstream's containers pass flags and no role, so their replacement image calls the program by the
// name of a role.
func TestTheSidecarsImagePicksItsRole(t *testing.T) {
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "deploy", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile(`(?m)^FROM scratch AS csi-provisioner\nCOPY --from=build /purser (\S+)\nENTRYPOINT \["(\S+)"\]$`).FindStringSubmatch(string(dockerfile))
	if len(program) != 3 || program[1] != program[2] {
		t.Fatalf("found %q", program)
	}
	var out strings.Builder
	err = roles.Execute(t.Context(), cli.Program{Name: program[2], Version: "v1", Args: []string{"--version"}, Out: &out, Err: io.Discard})
	if err != nil || out.String() != program[2]+" v1\n" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

// The driver accepts the parameters of the classes in the examples.
func TestTheClassesOfTheExamples(t *testing.T) {
	b, err := loopfile.New(loopfile.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	classes := 0
	for _, file := range files {
		for _, object := range manifest(t, file) {
			var of string
			switch class := object.(type) {
			case *storagev1.StorageClass:
				of, err = class.Provisioner, b.CheckParameters(class.Parameters)
			case *storagev1.VolumeAttributesClass:
				of, err = class.DriverName, b.CheckMutable(class.Parameters)
			default:
				continue
			}
			classes++
			if err != nil || of != csidriver.DefaultName {
				t.Errorf("%s: a class of %s: %v", file, of, err)
			}
		}
	}
	if classes < 5 {
		t.Errorf("found %d classes", classes)
	}
}
