package handle

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend"
)

const hashedPrefix = "x-"

var (
	plainName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	hashedName = regexp.MustCompile(`^x-[a-z2-7]{26}$`)
	snapName   = regexp.MustCompile(`^[sg][a-z2-7]{26}$`)
)

// nameOf keeps a name that can stand in an id and in the name of an image, and
// gives the digest of any other one. Names that look like a digest are
// digested as well, so that no name can be chosen to meet another's.
func nameOf(name string) string {
	if plainName.MatchString(name) && !strings.HasPrefix(name, hashedPrefix) {
		return name
	}
	return hashedPrefix + digest(name)
}

// IsName says whether a volume can have this name: others in the same pool are
// another program's.
func IsName(text string) bool {
	return hashedName.MatchString(text) || plainName.MatchString(text) && !strings.HasPrefix(text, hashedPrefix)
}

// IsSnap says so for a snapshot.
func IsSnap(text string) bool { return snapName.MatchString(text) }

// digest is 128 bits of a hash in 26 letters and digits.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16])
	return strings.ToLower(text)
}

// escape writes what is no letter, digit or dash as an underscore and two hex
// digits, so that the dots of an id separate its parts.
func escape(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-':
			out.WriteByte(b)
		default:
			out.WriteByte('_')
			out.WriteString(hex.EncodeToString([]byte{b}))
		}
	}
	return out.String()
}

// unescape undoes escape. What escape cannot have made is found out by Parse,
// which spells the result again.
func unescape(text string) string {
	first, rest, _ := strings.Cut(text, "_")
	var out strings.Builder
	out.WriteString(first)
	for part := range strings.SplitSeq(rest, "_") {
		if len(part) < 2 {
			continue
		}
		b, err := hex.DecodeString(part[:2])
		if err != nil {
			continue
		}
		out.Write(b)
		out.WriteString(part[2:])
	}
	return out.String()
}

// Parse reads an id; fault.NotFound for one that ID cannot have made.
func Parse(text string) (Object, error) {
	parts := strings.Split(text, ".")
	var o Object
	switch parts[0] {
	case volumeRBD, snapshotRBD, groupRBD:
		o.Kind, o.IsGroup = RBD, parts[0] == groupRBD
	case volumeFS, snapshotFS:
		o.Kind = CephFS
	default:
		return Object{}, backend.NoSuchVolume(text)
	}
	wanted := 5
	if parts[0] == volumeRBD || parts[0] == volumeFS {
		wanted = 4
	}
	if len(parts) != wanted {
		return Object{}, backend.NoSuchVolume(text)
	}
	o.Cluster, o.Pool, o.Name = unescape(parts[1]), unescape(parts[2]), unescape(parts[3])
	if wanted == 5 {
		o.Snap = parts[4]
	}
	if id, err := o.ID(); err != nil || id.String() != text || !o.isSound() {
		return Object{}, backend.NoSuchVolume(text)
	}
	return o, nil
}

// isSound refuses what no request can have led to: parts of an id become
// arguments of programs and parts of paths.
func (o Object) isSound() bool {
	if o.Check() != nil || !IsName(o.Name) {
		return false
	}
	if o.IsVolume() {
		return true
	}
	return IsSnap(o.Snap) && (!o.IsGroup || strings.HasPrefix(o.Snap, "g")) &&
		(o.Kind == RBD || strings.HasPrefix(o.Snap, "s"))
}

// Of reads an id that a request carries.
func Of(id backend.ID) (Object, error) { return Parse(id.String()) }

// Text spells a place as the beginning of the ids there.
func (p Place) Text() string {
	return strings.Join([]string{Object{Place: p}.word(), escape(p.Cluster), escape(p.Pool)}, ".")
}

// ParsePlace reads what Text spelled.
func ParsePlace(text string) (Place, error) {
	o, err := Parse(text + ".a")
	return o.Place, err
}
