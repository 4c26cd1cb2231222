package inventory

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/purser-csi/purser/internal/telemetry"
)

// kindSpans is the kind of an item of a dump that has what a role did last. Its apiVersion is
// [telemetry.SpansSchema].
const kindSpans = "Spans"

const (
	// mostSpans bounds the spans that are read of a dump.
	mostSpans = 1 << 18
	// mostOfText bounds a text of a span. Names and handles have a few hundred bytes.
	mostOfText = 1 << 10
)

// SpansItem returns the item of a dump that has what a role did last. name says where it was read.
func SpansItem(name string, spans []telemetry.Span) map[string]any {
	return map[string]any{
		"apiVersion": telemetry.SpansSchema, "kind": kindSpans,
		"metadata": map[string]any{"name": name}, "spans": spans,
	}
}

func isSpans(kind schema.GroupVersionKind) bool {
	return kind.Kind == kindSpans && kind.GroupVersion().String() == telemetry.SpansSchema
}

// addSpans takes the spans of an item.
func (b *Builder) addSpans(content map[string]any) error {
	text, err := json.Marshal(content["spans"])
	if err != nil {
		return err
	}
	var spans []telemetry.Span
	if err := json.Unmarshal(text, &spans); err != nil {
		return fmt.Errorf("spans: %w", err)
	}
	if room := mostSpans - len(b.spans); len(spans) > room {
		spans = spans[len(spans)-room:]
	}
	for _, span := range spans {
		for _, text := range []*string{&span.Role, &span.Name, &span.Code, &span.Volume, &span.Object} {
			if len(*text) > mostOfText {
				*text = strings.ToValidUTF8((*text)[:mostOfText], "") + "..."
			}
		}
		b.spans = append(b.spans, span)
	}
	return nil
}
