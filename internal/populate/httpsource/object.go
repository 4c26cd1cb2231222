package httpsource

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/purser-csi/purser/internal/populate"
)

// Prefix is before the names of the finalizer, the label and the annotations, and the API group.
const Prefix = "populator.purser"

// Kind is the kind of the sources.
var Kind = schema.GroupVersionKind{Group: Prefix, Version: "v1alpha1", Kind: "HTTPSource"}

// Where the container has the secret, and where it serves the progress.
const (
	secretPath   = "/populate/secret"
	progressPort = 8081
)

// Formats of the data.
const (
	formatRaw   = "raw"
	formatTar   = "tar"
	formatTarGz = "tar.gz"
)

var formats = []string{formatRaw, formatTar, formatTarGz}

// DefaultFile is the name of the file in a filesystem.
const DefaultFile = "disk.img"

// Populator returns the populator of HTTPSources. allowLocal has the pods connect to loopback and link-local
// addresses too.
func Populator(allowLocal bool) populate.Populator {
	return populate.Populator{
		Prefix: Prefix, Source: Kind,
		Pod: func(o *unstructured.Unstructured, target populate.Target) (populate.Request, error) {
			return newRequest(o, target, allowLocal)
		},
	}
}

// spec is spec of an HTTPSource.
type spec struct{ url, sha256, format, fileName, headersSecret string }

func newRequest(o *unstructured.Unstructured, target populate.Target, allowLocal bool) (r populate.Request, err error) {
	s := specOf(o)
	if err := s.validate(target.Block); err != nil {
		return r, err
	}
	r.Args = []string{
		"populate", "http", "--url=" + s.url, "--format=" + s.format, "--target=" + target.Path,
		"--block=" + strconv.FormatBool(target.Block), "--max-bytes=" + strconv.FormatInt(target.Size, 10),
		"--progress-address=:" + strconv.Itoa(progressPort),
	}
	if s.sha256 != "" {
		r.Args = append(r.Args, "--sha256="+s.sha256)
	}
	if !target.Block && s.format == formatRaw {
		r.Args = append(r.Args, "--file-name="+s.fileName)
	}
	if s.headersSecret != "" {
		r.Secret, r.SecretPath = s.headersSecret, secretPath
		r.Args = append(r.Args, "--secret-dir="+secretPath, "--source-namespace="+o.GetNamespace())
	}
	if allowLocal {
		r.Args = append(r.Args, "--allow-local-addresses")
	}
	r.Port = progressPort
	return r, nil
}

func specOf(o *unstructured.Unstructured) spec {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(o.Object, "spec", field)
		return value
	}
	s := spec{text("url"), strings.ToLower(text("sha256")), text("format"), text("fileName"), text("headersSecret")}
	if s.format == "" {
		s.format = formatRaw
		if strings.HasPrefix(s.url, schemeOCI) {
			s.format = formatTarGz
		}
	}
	if s.fileName == "" {
		s.fileName = DefaultFile
	}
	return s
}

// validate returns the first field that is refused.
func (s spec) validate(block bool) error {
	if problem := urlProblem(s.url); problem != "" {
		return refuse("url", Shown(s.url), problem)
	}
	switch {
	case s.sha256 != "" && !isDigest(s.sha256):
		return refuse("sha256", s.sha256, "give the checksum as 64 hexadecimal digits, as sha256sum prints it")
	case !slices.Contains(formats, s.format):
		return refuse("format", s.format, "give one of "+strings.Join(formats, ", "))
	case block && s.format != formatRaw:
		return refuse("format", s.format, "a claim with volumeMode Block takes raw only; give the claim a filesystem")
	case strings.HasPrefix(s.url, schemeOCI) && s.format != formatTarGz:
		return refuse("format", s.format, "a layer of an image is unpacked: leave the field out, or give tar.gz")
	case !isFileName(s.fileName):
		return refuse("fileName", s.fileName, "give a name without / that is neither "+stateFile+" nor "+
			stateFile+".new")
	case s.headersSecret != "" && len(validation.IsDNS1123Subdomain(s.headersSecret)) > 0:
		return refuse("headersSecret", s.headersSecret, "give the name of a Secret")
	}
	return nil
}

func refuse(field, value, fix string) error {
	return populate.InvalidError{Problem: fmt.Sprintf("spec.%s: %q is refused", field, value), Fix: fix}
}

// urlProblem returns what to do about a URL that is refused; empty for none.
func urlProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return "give a URL such as https://example.com/disk.img, or oci://registry.example.com/repository:tag"
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "oci":
		return "begin it with https://, http:// or oci://"
	case u.User != nil:
		return "leave user and password out of the URL, and put a header Authorization into a Secret"
	case u.Fragment != "":
		return "leave the fragment after # out"
	case u.Scheme == "oci":
		return imageProblem(u)
	}
	return ""
}

// Shown returns a URL for messages: without what may be secret, which are user, password and query.
func Shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "(no URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

func isDigest(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 32
}

func isFileName(name string) bool {
	return name != "." && name != ".." && !isState(name) && len(name) < 256 && !strings.ContainsAny(name, "/\x00")
}
