package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	core "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/roles/clusterflags"
	"github.com/purser-csi/purser/internal/telemetry"
)

// source says where the objects are read from. The flags are kubectl's, so that the commands work
// as its plugin.
type source struct {
	clusterflags.Flags
	from    []string
	now, at string
	once    map[string][]byte // texts of --from that can be read once: standard input, pipes
	record  *record.Record    // that --from names; nil for a dump or a cluster
	spans   []telemetry.Span  // that the dumps of --from have
	in      io.Reader         // for --from -
	notes   io.Writer         // takes what of a record cannot be used; nil for nothing
}

func (s *source) flags(f *pflag.FlagSet) {
	s.Add(f, "`namespace` of the object, in place of that of the context; without an object, only what is in it")
}

func (s *source) dumpFlags(f *pflag.FlagSet) {
	f.StringArrayVar(
		&s.from,
		"from",
		nil,
		"a dump or a record to read instead of a cluster: a `file` of YAML or JSON, a folder of such files, or - for "+
			"standard input; may be given several times",
	)
	f.StringVar(
		&s.at, "at", "", "`time` in a record that --from names, in RFC 3339; without it the end of the record",
	)
	f.StringVar(&s.now, "now", "", "`time` of the dump, in RFC 3339; without it the newest time that the dump names")
}

// of returns the source with another namespace, unless that is empty.
func (s *source) of(namespace string) source {
	other := *s
	other.Namespace = cmp.Or(namespace, s.Namespace)
	return other
}

func (s *source) client() (client.WithWatch, string, error) {
	config, namespace, err := s.Config("purser-explain")
	if err != nil {
		return nil, "", fmt.Errorf("%w, or --from for a dump", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: inventory.Scheme()})
	if err != nil {
		return nil, "", fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return c, cmp.Or(s.Namespace, namespace), nil
}

// read returns the cluster, and the namespace that objects without one are in. Of an API server it
// reads what an explanation of objects of the asked kinds needs, and everything without asked
// kinds.
func (s *source) read(ctx context.Context, asked ...core.Kind) (*core.Cluster, string, error) {
	if len(s.from) > 0 {
		builder, err := s.readDump()
		if err != nil {
			return nil, "", err
		}
		return builder.Cluster(), cmp.Or(s.Namespace, "default"), nil
	}
	if s.now != "" || s.at != "" {
		return nil, "", errors.New(
			"--now and --at: only a dump and a record have times of their own; give --from as well",
		)
	}
	reader, namespace, err := s.client()
	if err != nil {
		return nil, "", err
	}
	cluster, err := inventory.Read(ctx, reader, namespace, time.Now(), asked...)
	return cluster, namespace, err
}

func (s *source) readDump() (*inventory.Builder, error) {
	if builder, err := s.readRecord(); builder != nil || err != nil {
		return builder, err
	}
	builder := inventory.NewBuilder(time.Time{})
	var at time.Time
	for _, from := range s.from {
		found, err := s.readFrom(builder, from)
		if err != nil {
			return nil, err
		}
		if found.After(at) {
			at = found
		}
	}
	switch {
	case s.now != "":
		given, err := time.Parse(time.RFC3339, s.now)
		if err != nil {
			return nil, fmt.Errorf("--now=%s: expected a time such as 2026-01-31T12:00:00Z", s.now)
		}
		at = given
	case at.IsZero():
		at = builder.Latest()
	}
	if at.IsZero() {
		at = time.Now()
	}
	builder.SetNow(at)
	s.spans = builder.Spans()
	return builder, nil
}

// calls returns the calls and decisions of roles that the source has, up to a time.
func (s *source) calls(until time.Time) (all []life.Call) {
	for _, span := range s.spans {
		all = append(all, life.Call(span))
	}
	if s.record != nil {
		all = s.record.Calls()
	}
	return slices.DeleteFunc(slices.Clone(all), func(c life.Call) bool { return c.From.After(until) })
}

func (s *source) readFrom(builder *inventory.Builder, from string) (time.Time, error) {
	if text, isRead := s.once[from]; isRead {
		if from == "-" {
			from = "standard input"
		}
		return builder.Parse(from, text)
	}
	info, err := os.Stat(from)
	if err != nil {
		return time.Time{}, fmt.Errorf("--from=%s: %w", from, err)
	}
	if !info.IsDir() {
		return readFile(builder, from)
	}
	return readFolder(builder, from)
}

// readFolder reads every YAML and JSON file below a folder: a must-gather, the output of kubectl
// cluster-info dump, or files by hand. Such folders have files of other programs as well, so a file
// that has no API object in it is left out.
func readFolder(builder *inventory.Builder, folder string) (at time.Time, err error) {
	read := 0
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() ||
			!slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))) {
			return err
		}
		found, err := readFile(builder, path)
		if err != nil {
			return nil //nolint:nilerr // a folder may have other files
		}
		read++
		if found.After(at) {
			at = found
		}
		return nil
	})
	if err == nil && read == 0 {
		err = fmt.Errorf("--from=%s: no .yaml, .yml or .json file in it has API objects", folder)
	}
	return at, err
}

func readFile(builder *inventory.Builder, path string) (time.Time, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("--from: %w", err)
	}
	return builder.Parse(path, text)
}

// kindNames are the words that the command line takes for a kind.
var kindNames = map[string]core.Kind{
	"pvc": core.Claim, "claim": core.Claim, "persistentvolumeclaim": core.Claim, "pv": core.Volume,
	"volume": core.Volume, "persistentvolume": core.Volume,
	"pod": core.Pod, "po": core.Pod, "va": core.Attachment, "volumeattachment": core.Attachment, "vs": core.Snapshot,
	"snapshot": core.Snapshot,
	"vsc":      core.Content, "volumesnapshotcontent": core.Content, "content": core.Content,
	"volumesnapshot": core.Snapshot, "node": core.Node, "no": core.Node, "sc": core.Class, "class": core.Class,
	"storageclass": core.Class,
	"ns":           core.Namespace, "namespace": core.Namespace, "deploy": core.Deployment,
	"deployment": core.Deployment,
	"sts":        core.StatefulSet, "statefulset": core.StatefulSet, "ds": core.DaemonSet, "daemonset": core.DaemonSet,
	"rs": core.ReplicaSet, "replicaset": core.ReplicaSet, "job": core.Job,
	"csinode": core.CSINode, "csidriver": core.CSIDriver, "driver": core.CSIDriver,
	"vac": core.AttributesClass, "volumeattributesclass": core.AttributesClass,
	"volumesnapshotclass": core.SnapshotClass, "vsclass": core.SnapshotClass,
	"vgs": core.GroupSnapshot, "volumegroupsnapshot": core.GroupSnapshot,
	"vgsc": core.GroupContent, "volumegroupsnapshotcontent": core.GroupContent,
	"vgsclass": core.GroupClass, "volumegroupsnapshotclass": core.GroupClass,
	"lease": core.Lease, "secret": core.Secret,
}

// parseRef reads KIND/NAME, or KIND and NAME, in any spelling that kubectl takes: plural, with a
// group, in capitals.
func parseRef(args []string, namespace string) (core.Ref, error) {
	text := strings.Join(args, "/")
	kindText, name, ok := strings.Cut(text, "/")
	if !ok || name == "" || strings.Contains(name, "/") {
		return core.Ref{}, fmt.Errorf("%q: expected KIND/NAME, such as pvc/data", strings.Join(args, " "))
	}
	word, _, _ := strings.Cut(strings.ToLower(kindText), ".")
	kind, ok := kindNames[word]
	if !ok {
		kind, ok = kindNames[strings.TrimSuffix(word, "s")]
	}
	if !ok {
		kind, ok = kindNames[strings.TrimSuffix(word, "es")]
	}
	if !ok {
		return core.Ref{}, unknownKind(kindText)
	}
	ref := core.Ref{Kind: kind, Name: name}
	if kind.IsNamespaced() {
		ref.Namespace = namespace
	}
	return ref, nil
}
