package backend

import "testing"

// The second table of NodePublishVolume, for drivers with
// SINGLE_NODE_MULTI_WRITER.
func TestAccessModes(t *testing.T) {
	tests := map[AccessMode]struct{ several, readsOnly bool }{
		SingleNodeWriter:       {false, false},
		SingleNodeReaderOnly:   {false, true},
		MultiNodeReaderOnly:    {true, true},
		MultiNodeSingleWriter:  {true, false},
		MultiNodeMultiWriter:   {true, false},
		SingleNodeSingleWriter: {false, false},
		SingleNodeMultiWriter:  {true, false},
	}
	for _, mode := range AccessModes {
		want, listed := tests[mode]
		if !listed {
			t.Errorf("%s: not in the table", mode)
		}
		if mode.AllowsSeveralTargets() != want.several || mode.ReadsOnly() != want.readsOnly {
			t.Errorf("%s: several targets %v, reads only %v", mode, mode.AllowsSeveralTargets(), mode.ReadsOnly())
		}
	}
	if len(AccessModes) != len(tests) {
		t.Errorf("%d modes, %d rows", len(AccessModes), len(tests))
	}
}

func TestCapabilityStringKeepsMountFlagsToItself(t *testing.T) {
	c := Capability{Type: Mount, Mode: SingleNodeWriter, FSType: "xfs", MountFlags: []string{"password=secret"}}
	if got := c.String(); got != "mount(xfs) SINGLE_NODE_WRITER" {
		t.Errorf("String = %s", got)
	}
}

func TestRangeContains(t *testing.T) {
	tests := []struct {
		size  Range
		bytes int64
		want  bool
	}{
		{Range{}, 0, true},
		{Range{}, 5, true},
		{Range{Required: 5}, 4, false},
		{Range{Required: 5}, 5, true},
		{Range{Required: 5}, 9, true},
		{Range{Limit: 5}, 6, false},
		{Range{Limit: 5}, 5, true},
		{Range{Required: 5, Limit: 7}, 6, true},
		{Range{Required: 5, Limit: 7}, 8, false},
	}
	for _, test := range tests {
		if got := test.size.Contains(test.bytes); got != test.want {
			t.Errorf("%+v contains %d: %v, want %v", test.size, test.bytes, got, test.want)
		}
	}
}
