package driver

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// The second table of NodePublishVolume, end to end: for each mode of the
// first publication, what the four kinds of second publication give.
func TestSecondPublish(t *testing.T) {
	const (
		idempotent = codes.OK
		company    = codes.OK
		differs    = codes.AlreadyExists
		alone      = codes.FailedPrecondition
	)
	type row struct{ sameSame, sameOther, otherSame, otherOther codes.Code }
	exclusive := row{idempotent, differs, alone, alone}
	shared := row{idempotent, differs, company, company}
	table := map[csi.VolumeCapability_AccessMode_Mode]row{
		csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        exclusive,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   exclusive,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: exclusive,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  shared,
		csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    shared,
		csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER:  shared,
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER:   shared,
	}
	r := newRig(t, settings{})
	for mode, want := range table {
		t.Run(mode.String(), func(t *testing.T) {
			id := r.create(t, mode.String())
			second := func(target string, readOnly bool) error {
				request := r.publishRequest(id, mode.String()+target)
				request.VolumeCapability, request.Readonly = mountCapability(mode), readOnly
				_, err := r.NodePublishVolume(t.Context(), request)
				return err
			}
			wantCode(t, second("T1", false), codes.OK)
			wantCode(t, second("T1", false), want.sameSame)
			wantCode(t, second("T1", true), want.sameOther)
			wantCode(t, second("T2", false), want.otherSame)
			wantCode(t, second("T3", true), want.otherOther)
		})
	}
}

// A publication that was made as the only one refuses every second one.
func TestSecondPublishWithAnotherMode(t *testing.T) {
	const (
		one  = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		many = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	)
	r := newRig(t, settings{})
	for name, modes := range map[string][2]csi.VolumeCapability_AccessMode_Mode{
		"one then many": {one, many},
		"many then one": {many, one},
	} {
		t.Run(name, func(t *testing.T) {
			id := r.create(t, name)
			for i, want := range []codes.Code{codes.OK, codes.FailedPrecondition} {
				request := r.publishRequest(id, name+string(rune('a'+i)))
				request.VolumeCapability = mountCapability(modes[i])
				_, err := r.NodePublishVolume(t.Context(), request)
				wantCode(t, err, want)
			}
		})
	}
}
