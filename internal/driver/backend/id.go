package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// ID names a volume, a snapshot or a group. Only IDOf and ParseID return one that is not empty, so an
// ID can be used as one component of a path: it is never "." or "..", and it has no slash.
//
// It is derived from the name of the volume, so that a repeated CreateVolume
// finds the volume of the first one without an index that could get lost.
type ID struct{ text string }

// String gives the id as CSI messages and paths spell it.
func (id ID) String() string { return id.text }

// hashedPrefix is reserved: a name that begins with it is hashed as well, so
// that no name can be chosen that meets the id of another one.
const hashedPrefix = "sha256-"

var (
	plainID  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)
	hashedID = regexp.MustCompile(`^sha256-[0-9a-f]{64}$`)
)

// IDOf gives the id of the volume with this name: the name itself when it can
// stand in a path, otherwise its hash. CSI allows nearly any Unicode string of
// up to 128 bytes as a name (CreateVolumeRequest.name).
func IDOf(name string) ID {
	if isPlain(name) {
		return ID{name}
	}
	sum := sha256.Sum256([]byte(name))
	return ID{hashedPrefix + hex.EncodeToString(sum[:])}
}

// ParseID checks an id that came from outside. One that no name can have made
// belongs to no volume, so the error is of kind fault.NotFound.
func ParseID(text string) (ID, error) {
	if isPlain(text) || hashedID.MatchString(text) {
		return ID{text}, nil
	}
	return ID{}, NoSuchVolume(text)
}

func isPlain(text string) bool {
	return plainID.MatchString(text) && !strings.HasPrefix(text, hashedPrefix)
}

// NoSuchVolume is the error for a volume that does not exist.
func NoSuchVolume(id string) error {
	return fault.NotFound.Errorf("volume %.128q does not exist", id)
}

// MarshalText encodes the id for a record.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.text), nil }

// UnmarshalText is [ParseID] for a record.
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}
