package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
)

// verification compares a release with its signatures.
type verification struct {
	key     signature.Verifier
	folder  string // files of the release
	store   store  // images of the release
	version string // that was asked for; empty for the one in the folder
}

func verify(ctx context.Context, flags *flag.FlagSet, args []string, out io.Writer) error {
	key := flags.String("key", "", "public key (PEM), from a source that you trust")
	from := flags.String("from", "", "folder of the release")
	path := flags.String("registry", "", "instead of a folder: HOST or HOST/PATH that it was pushed to")
	version := flags.String("version", "", "with -registry: version, such as v1.2.3")
	insecure := flags.Bool("insecure", false, "speak HTTP with a registry that is not on this machine")
	if err := parse(flags, args, "key"); err != nil {
		return err
	}
	if (*from == "") == (*path == "") || (*path == "") != (*version == "") {
		return errors.New("give -from, or -registry and -version")
	}
	k, err := readPublicKey(*key)
	if err != nil {
		return fmt.Errorf("-key=%s: %w", *key, err)
	}
	v := verification{key: k, folder: *from, version: *version}
	if *from != "" {
		v.store, err = readLayout(filepath.Join(*from, layoutFolder))
	} else {
		v.store = newRemote(ctx, *path, *insecure)
		if v.folder, err = os.MkdirTemp("", "purser-release-"); err == nil {
			defer os.RemoveAll(v.folder)
			err = v.fetchFiles()
		}
	}
	if err != nil {
		return err
	}
	return v.verify(out)
}

// fetchFiles reads the files of a release from a registry. Their artifact must be signed.
func (v verification) fetchFiles() error {
	e, err := v.store.get(filesRepository, v.version)
	if err != nil {
		return err
	}
	if e.image == nil {
		return fmt.Errorf("%s is no release", e.ref)
	}
	if err := v.checkSignature(filesRepository, e.digest); err != nil {
		return err
	}
	named, err := filesOf(e.image)
	if err != nil {
		return fmt.Errorf("%s: %w", e.ref, err)
	}
	for name, text := range named {
		if err := writeFile(filepath.Join(v.folder, name), text); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files of the artifact with the release.
func filesOf(image v1.Image) (map[string][]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	named := map[string][]byte{}
	for _, l := range manifest.Layers {
		name := l.Annotations[fileName]
		if !filepath.IsLocal(name) || name != filepath.Base(name) {
			return nil, fmt.Errorf("%q is no name of a file", name)
		}
		if named[name], err = content(image, l); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return named, nil
}

// verify checks the files from the signature down, then the images that they name.
func (v verification) verify(out io.Writer) error {
	if err := v.checkFileSignature(sumsFile); err != nil {
		return err
	}
	sums, err := checkSums(v.folder)
	if err != nil {
		return err
	}
	for _, s := range sums {
		if isArchive(s.name) {
			if err := checkSBOM(filepath.Join(v.folder, s.name)); err != nil {
				return err
			}
		}
	}
	items, err := readImageList(v.folder)
	if err != nil {
		return err
	}
	if err := v.checkProvenance(sums, items); err != nil {
		return fmt.Errorf("%s: %w", provenanceFile, err)
	}
	for _, i := range items {
		if err := v.checkItem(i); err != nil {
			return fmt.Errorf("%s: %w", i, err)
		}
		fmt.Fprintln(out, "verified", i)
	}
	files, err := v.checkFilesArtifact(items)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "verified %s, with %d files\n", files, len(sums))
	return nil
}

// checkFileSignature verifies both forms of a file's signature.
func (v verification) checkFileSignature(name string) error {
	path := filepath.Join(v.folder, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	encoded, err := os.ReadFile(path + ".sig")
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not signed", name)
	}
	if err != nil {
		return err
	}
	sig, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(encoded)))
	if err == nil {
		err = v.key.VerifySignature(bytes.NewReader(sig), bytes.NewReader(text))
	}
	if err != nil {
		return fmt.Errorf("%s.sig: %w", name, err)
	}
	var b fileBundle
	encoded, err = os.ReadFile(path + ".sigstore.json")
	if err == nil {
		err = json.Unmarshal(encoded, &b)
	}
	if err == nil {
		err = v.key.VerifySignature(bytes.NewReader(b.Message.Signature), bytes.NewReader(text))
	}
	if err == nil {
		err = checkDigest(name, text, v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", b.Message.Digest.Digest)})
	}
	if err != nil {
		return fmt.Errorf("%s.sigstore.json: %w", name, err)
	}
	return nil
}

// checkProvenance verifies the statement about all files and images.
func (v verification) checkProvenance(sums []sum, items []item) error {
	text, err := os.ReadFile(filepath.Join(v.folder, provenanceFile))
	if err != nil {
		return err
	}
	s, err := v.open(text)
	if err != nil {
		return err
	}
	if s.PredicateType != provenanceType {
		return fmt.Errorf("is a statement of type %q, want %q", s.PredicateType, provenanceType)
	}
	for _, f := range sums {
		// It cannot have its own checksum, and the key is no product of the build.
		if f.name == provenanceFile || f.name == publicFile {
			continue
		}
		if !s.isAbout(f.name, v1.Hash{Algorithm: "sha256", Hex: f.digest}) {
			return fmt.Errorf("is not about %s", f.name)
		}
	}
	for _, i := range items {
		if !s.isAbout(i.repository+":"+i.tag, i.digest) {
			return fmt.Errorf("is not about %s", i)
		}
	}
	return nil
}

// open verifies an envelope and returns the statement in it.
func (v verification) open(envelope []byte) (s statement, err error) {
	if err := dsse.WrapVerifier(v.key).VerifySignature(bytes.NewReader(envelope), nil); err != nil {
		return s, err
	}
	var e struct {
		Type    string `json:"payloadType"`
		Payload []byte `json:"payload"`
	}
	if err := json.Unmarshal(envelope, &e); err != nil {
		return s, err
	}
	if e.Type != payloadType {
		return s, fmt.Errorf("payload of type %q, want %q", e.Type, payloadType)
	}
	if err := json.Unmarshal(e.Payload, &s); err != nil {
		return s, err
	}
	if s.Type != statementType {
		return s, fmt.Errorf("statement of type %q, want %q", s.Type, statementType)
	}
	return s, nil
}

// isAbout reports whether the statement has the subject; without a name any of this digest.
func (s statement) isAbout(name string, digest v1.Hash) bool {
	for _, about := range s.Subject {
		if (name == "" || about.Name == name) && about.Digest[digest.Algorithm] == digest.Hex {
			return true
		}
	}
	return false
}

// checkFilesArtifact verifies that the artifact with the files has the files of the folder.
func (v verification) checkFilesArtifact(items []item) (string, error) {
	version := ""
	for _, i := range items {
		if i.repository != chartRepository {
			version = i.tag
		}
	}
	// Another release has signatures too: a registry must not pass it off as the one that was asked for.
	if v.version != "" && v.version != version {
		return "", fmt.Errorf("the registry has the release %s under the tag %s", version, v.version)
	}
	e, err := v.store.get(filesRepository, version)
	if err != nil {
		return "", err
	}
	if e.image == nil {
		return "", fmt.Errorf("%s is no release", e.ref)
	}
	if err := v.checkSignature(filesRepository, e.digest); err != nil {
		return "", err
	}
	if err := checkImageContent(e.image, e.digest); err != nil {
		return "", fmt.Errorf("%s: %w", e.ref, err)
	}
	named, err := filesOf(e.image)
	if err != nil {
		return "", err
	}
	for name, text := range named {
		have, err := os.ReadFile(filepath.Join(v.folder, name))
		if err != nil || !bytes.Equal(have, text) {
			return "", errors.Join(fmt.Errorf("%s of %s is not that of the folder", name, e.ref), err)
		}
	}
	return e.ref + "@" + e.digest.String(), nil
}
