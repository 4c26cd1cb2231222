package intent

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/secretref"
)

// The text of a journal is "v3:" and, in base64, the compressed fields of its entries, each field
// prefixed with its length. An entry is followed by the requests that it replaced, with the same
// uid. The requests of one class are nearly equal, so hundreds of them compress to a few kilobytes.
const version = "v3:"

// fieldsPerEntry is the number of fields of an entry.
const fieldsPerEntry = 6

func fields(e Entry) ([][]byte, error) {
	request, err := proto.MarshalOptions{Deterministic: true}.Marshal(e.Request)
	if err != nil {
		return nil, fmt.Errorf("request of claim %s: %w", e.Claim, err)
	}
	return [][]byte{
		[]byte(e.Claim.Namespace), []byte(e.Claim.Name), []byte(e.UID),
		[]byte(e.Secrets.Text()), request, discarding(e),
	}, nil
}

// size returns the bytes of the entry before compression, without replaced requests.
func size(e Entry) int {
	n := proto.Size(e.Request) + len(e.Claim.Namespace) + len(e.Claim.Name) + len(e.UID) + len(e.Secrets.Text())
	return n + fieldsPerEntry*binary.MaxVarintLen16
}

// packer encodes texts. It keeps the compressor, about a megabyte, as long as there are entries: it
// would be half of a provisioner's garbage in a burst.
type packer struct{ writer *flate.Writer }

// Encode returns the text for a list of entries.
func Encode(entries []Entry) (string, error) { return new(packer).encode(entries) }

// encode returns the text for a list of entries; empty for no entries.
func (p *packer) encode(entries []Entry) (string, error) {
	if len(entries) == 0 {
		p.writer = nil
		return "", nil
	}
	var raw []byte
	for _, e := range withReplaced(entries) {
		parts, err := fields(e)
		if err != nil {
			return "", err
		}
		for _, part := range parts {
			raw = binary.AppendUvarint(raw, uint64(len(part)))
			raw = append(raw, part...)
		}
	}
	packed, err := p.compress(raw)
	if err != nil {
		return "", fmt.Errorf("compress: %w", err)
	}
	return version + base64.StdEncoding.EncodeToString(packed), nil
}

// discarding returns the field of a volume that is to be deleted: one byte and the handle; nil for none.
func discarding(e Entry) []byte {
	if e.Discarding || e.Known.Handle != "" {
		return append([]byte{1}, e.Known.Handle...)
	}
	return nil
}

// withoutHandles returns the entries without the handles of volumes that are to be deleted.
func withoutHandles(entries []Entry) []Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Discarding = len(discarding(entries[i])) > 0
		entries[i].Known.Handle = ""
	}
	return entries
}

func withReplaced(entries []Entry) []Entry {
	all := make([]Entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, e)
		for former := e.Replaced; former != nil; former = former.Replaced {
			all = append(all, *former)
		}
	}
	return all
}

func (p *packer) compress(raw []byte) ([]byte, error) {
	var packed bytes.Buffer
	if p.writer == nil {
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			return nil, err
		}
		p.writer = w
	} else {
		p.writer.Reset(&packed)
	}
	if _, err := p.writer.Write(raw); err != nil {
		return nil, err
	}
	err := p.writer.Close()
	return packed.Bytes(), err
}

// maxUnpacked bounds the memory that a damaged or hostile text can take.
const maxUnpacked = 8 << 20

// Decode reads a text of [Book.Take]. A text that it cannot read is an error: an unknown entry must
// not pass for a resolved one.
func Decode(text string) ([]Entry, error) {
	if text == "" {
		return nil, nil
	}
	rest, ok := bytes.CutPrefix([]byte(text), []byte(version))
	if !ok {
		return nil, fmt.Errorf("journal is not of version %q", version)
	}
	packed, err := base64.StdEncoding.AppendDecode(nil, rest)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxUnpacked))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var entries []Entry
	var last *Entry // of the chain that is read
	for len(raw) > 0 {
		var e Entry
		if e, raw, err = decodeEntry(raw); err != nil {
			return nil, err
		}
		if len(entries) > 0 && entries[len(entries)-1].UID == e.UID {
			last.Replaced = &e
			last = &e
			continue
		}
		entries = append(entries, e)
		last = &entries[len(entries)-1]
	}
	return entries, nil
}

var errShort = errors.New("journal ends in the middle of an entry")

func decodeEntry(raw []byte) (Entry, []byte, error) {
	var parts [fieldsPerEntry][]byte
	for i := range parts {
		length, n := binary.Uvarint(raw)
		if n <= 0 || length > uint64(len(raw)-n) {
			return Entry{}, nil, errShort
		}
		parts[i], raw = raw[n:n+int(length)], raw[n+int(length):]
	}
	request := &csi.CreateVolumeRequest{}
	if err := proto.Unmarshal(parts[4], request); err != nil {
		return Entry{}, nil, fmt.Errorf("journal: request of claim %s/%s: %w", parts[0], parts[1], err)
	}
	secrets, err := secretref.ParseSet(string(parts[3]))
	if err != nil {
		return Entry{}, nil, fmt.Errorf("journal: secrets of claim %s/%s: %w", parts[0], parts[1], err)
	}
	e := Entry{
		Claim:      types.NamespacedName{Namespace: string(parts[0]), Name: string(parts[1])},
		UID:        types.UID(parts[2]),
		VolumeName: request.GetName(),
		Request:    request,
		Secrets:    secrets,
	}
	if handle := parts[5]; len(handle) > 0 {
		e.Discarding, e.Known.Handle = true, string(handle[1:])
	}
	return e, raw, nil
}
