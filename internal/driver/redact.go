package driver

import (
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// redacted is a request without its secrets, for the log. The text is computed only when it is
// written.
type redacted struct{ request any }

// maxLogged bounds a request in the log, at any verbosity.
const maxLogged = 4 << 10

const stripped = "***stripped***"

// tokensKey is where kubelet puts service account tokens for drivers that ask
// for them; volume_context is not marked as secret.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// String strips the fields that the spec marks as secret, and two that it does
// not mark although they may be secret: mount flags (VolumeCapability.MountVolume) and
// tokens in a volume context.
func (r redacted) String() string {
	message, ok := r.request.(proto.Message)
	if !ok {
		return fault.Clip(protosanitizer.StripSecrets(r.request).String(), maxLogged)
	}
	clone := proto.Clone(message)
	strip(clone.ProtoReflect())
	return fault.Clip(protosanitizer.StripSecrets(clone).String(), maxLogged)
}

func strip(message protoreflect.Message) {
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "mount_flags":
			stripList(value.List())
		case field.IsMap():
			stripTokens(value.Map())
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range value.List().Len() {
				strip(value.List().Get(i).Message())
			}
		default:
			strip(value.Message())
		}
		return true
	})
}

func stripList(list protoreflect.List) {
	for i := range list.Len() {
		list.Set(i, protoreflect.ValueOfString(stripped))
	}
}

func stripTokens(entries protoreflect.Map) {
	key := protoreflect.ValueOfString(tokensKey).MapKey()
	if entries.Has(key) {
		entries.Set(key, protoreflect.ValueOfString(stripped))
	}
}
