package publishing

import (
	"fmt"
	"slices"
	"unicode/utf8"

	storagev1 "k8s.io/api/storage/v1"

	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// maxMessage and maxMetadata are what the API server accepts, in bytes (AT-A17).
const (
	maxMessage  = 1024
	maxMetadata = 256 << 10
)

// AfterPublish returns what follows a ControllerPublishVolume that succeeded.
func AfterPublish(s Snapshot, metadata map[string]string) Verdict {
	size := 0
	for key, value := range metadata {
		size += len(key) + len(value)
	}
	if size > maxMetadata {
		return failed(s, Attaching, verdict.PublishFailed, fmt.Sprintf(
			"the driver's publish_context has %d bytes; a VolumeAttachment holds %d at most", size, maxMetadata), nil)
	}
	return then(verdict.PublishRequested, "the volume is published", idle(verdict.AttachmentPublished, "the volume is attached"),
		MarkAttached{metadata})
}

// AfterUnpublish returns what follows a ControllerUnpublishVolume that succeeded. The finalizer goes first: an object with a
// deletionTimestamp and without it counts as detached (AT-D7).
func AfterUnpublish(s Snapshot) Verdict {
	va, finalizer := s.Attachment, names.AttacherFinalizer(s.Driver.Name)
	var actions []Action
	if slices.Contains(va.Finalizers, finalizer) {
		actions = append(actions, RemoveFinalizer{finalizer})
	}
	if va.Status.Attached && slices.ContainsFunc(va.Finalizers, func(f string) bool { return f != finalizer }) {
		actions = append(actions, MarkDetached{})
	}
	return then(verdict.UnpublishRequested, "the volume is unpublished", idle(verdict.AttachmentGone, "the volume is detached"), actions...)
}

// Failure is the error of one call, without secret values.
type Failure struct {
	Code    codes.Code
	Foreign bool // the error is not a gRPC status
	Message string
}

// AfterFailure returns what follows a call that failed: the error is saved and the call repeated with backoff (AT-G2). errorCode is
// saved for attaches only (AT-A16, AT-D9).
func AfterFailure(s Snapshot, direction Direction, f Failure) Verdict {
	var code *int32
	if !f.Foreign && direction == Attaching {
		number := int32(f.Code) //nolint:gosec // codes are small
		code = &number
	}
	reason := verdict.PublishFailed
	if direction == Detaching {
		reason = verdict.UnpublishFailed
	}
	return verdict.Coded(failed(s, direction, reason, f.Message, code), f.Code.String())
}

// AfterSecret returns what follows a secret that could not be read (AT-A10, AT-D3).
func AfterSecret(s Snapshot, direction Direction, message string) Verdict {
	reason := verdict.PublishInvalid
	if direction == Detaching {
		reason = verdict.UnpublishFailed
	}
	return failed(s, direction, reason, message, nil)
}

// failed saves the error, unless the same one is saved already (AT-H16), and asks for a retry.
func failed(s Snapshot, direction Direction, reason verdict.Reason, message string, code *int32) Verdict {
	message = Cut(message)
	end := refuse{Finding: finding(reason, message)}
	if isSaved(s.Attachment, direction, message, code) {
		return end
	}
	return do{Finding: end.Finding, Actions: []Action{SaveError{direction, message, code}}, Then: end}
}

func isSaved(va *storagev1.VolumeAttachment, direction Direction, message string, code *int32) bool {
	saved := va.Status.AttachError
	if direction == Detaching {
		saved = va.Status.DetachError
	}
	if saved == nil || saved.Message != message || (saved.ErrorCode == nil) != (code == nil) {
		return false
	}
	return code == nil || *saved.ErrorCode == *code
}

// Cut shortens a message to what the API server accepts, at the boundary of a character (AT-H3).
func Cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const more = "…"
	end := maxMessage - len(more)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + more
}

func finding(reason verdict.Reason, message string) verdict.Finding {
	return verdict.Finding{Reason: reason, Message: message}
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: finding(reason, message)}
}

func then(reason verdict.Reason, message string, next Verdict, actions ...Action) Verdict {
	if len(actions) == 0 {
		return next
	}
	return do{Finding: finding(reason, message), Actions: actions, Then: next}
}
