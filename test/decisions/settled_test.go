package decisions_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/decisions"
)

// settled returns the objects of a dump in testdata.
func settled(t *testing.T) (all []client.Object) {
	t.Helper()
	raw, err := os.ReadFile("testdata/settled.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(kube.Scheme()).UniversalDeserializer()
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(raw))); ; {
		document := make([]byte, len(raw))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o.(client.Object))
	}
}

// Over the dump of a cluster that has settled, each decision finds nothing to do, or waits: so did the
// controllers when the dump was made. Capacities are polled, so the driver is asked for them.
func TestSettledCluster(t *testing.T) {
	objects := settled(t)
	found := decisions.Of(t.Context(), newDump(t, objects), objects, "d", time.Unix(1e9, 0))
	const least = 10
	if len(found) < least {
		t.Errorf("only %d decisions: %v", len(found), found)
	}
	for what, verdict := range found {
		polls := strings.HasPrefix(what, "capacity ") && strings.HasSuffix(verdict, "GetCapacity")
		if !polls && !strings.HasPrefix(verdict, "verdict.Nothing") && !strings.HasPrefix(verdict, "verdict.Wait") {
			t.Errorf("%s: %s", what, verdict)
		}
	}
}
