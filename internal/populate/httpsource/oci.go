package httpsource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const schemeOCI = "oci://"

// The media types of manifests and of lists of manifests that are accepted.
var (
	manifestTypes = []string{
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
	}
	indexTypes = []string{
		"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
	}
)

// longestManifest bounds what is read of a manifest, as registries do.
const longestManifest = 4 << 20

// component is one part of the name of a repository.
const component = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`

var (
	repositoryForm = regexp.MustCompile(`^` + component + `(?:/` + component + `)*$`)
	tagForm        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

// image is oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST.
type image struct{ host, repository, reference string }

func parseImage(u *url.URL) (image, bool) {
	i := image{host: u.Host, repository: strings.TrimPrefix(u.Path, "/"), reference: "latest"}
	if repository, digest, is := strings.Cut(i.repository, "@"); is {
		i.repository, i.reference = repository, digest
		_, isSum := sumIn(digest)
		return i, isSum && repositoryForm.MatchString(repository)
	}
	if repository, tag, is := strings.Cut(i.repository, ":"); is {
		i.repository, i.reference = repository, tag
	}
	return i, repositoryForm.MatchString(i.repository) && tagForm.MatchString(i.reference)
}

// sumIn returns the hexadecimal digits of a digest; false if it is no sha256.
func sumIn(digest string) (sum string, is bool) {
	sum, is = strings.CutPrefix(digest, "sha256:")
	return sum, is && isDigest(sum)
}

func imageProblem(u *url.URL) string {
	if _, is := parseImage(u); !is || u.RawQuery != "" {
		return "give an image as oci://HOST/REPOSITORY:TAG or oci://HOST/REPOSITORY@sha256:DIGEST"
	}
	return ""
}

// manifest has the fields of a manifest and of a list of them.
type manifest struct {
	MediaType string `json:"mediaType"`
	Manifests []struct {
		Digest   string `json:"digest"`
		Platform struct {
			Architecture string `json:"architecture"`
			OS           string `json:"os"`
		} `json:"platform"`
	} `json:"manifests"`
	Layers []struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
	} `json:"layers"`
}

// resolveImage has the download read the layer of an image, and returns the layer's digest. An image of more
// layers is refused: what they remove of each other is not applied.
func (d *download) resolveImage() (digest string, err error) {
	u, err := url.Parse(d.url)
	if err != nil {
		return "", permanentError{"not a URL"}
	}
	from, is := parseImage(u)
	if !is {
		return "", permanentError{imageProblem(u)}
	}
	base := "https://" + from.host + "/v2/" + from.repository
	if d.isImage, d.account = true, d.secret; !d.secret.isFor(&url.URL{Scheme: "https", Host: from.host}) {
		d.account = &secret{} // the realm is the registry's choice, and the token goes to the registry
	}
	m, err := d.manifest(base, from.reference)
	if err == nil && len(m.Manifests) > 0 {
		m, err = d.ofPlatform(base, m)
	}
	switch {
	case err != nil:
		return "", err
	case len(m.Layers) != 1:
		return "", permanentError{fmt.Sprintf("the image has %d layers, and an image with one is unpacked; copy the "+
			"files to an image FROM scratch by one COPY", len(m.Layers))}
	}
	layer := m.Layers[0]
	if digest, is = sumIn(layer.Digest); !is {
		return "", permanentError{fmt.Sprintf("the layer has the digest %q; sha256 is accepted", layer.Digest)}
	}
	if !strings.HasSuffix(layer.MediaType, "tar+gzip") && !strings.HasSuffix(layer.MediaType, "tar.gzip") {
		return "", permanentError{fmt.Sprintf("the layer is of type %q; a tar with gzip is accepted", layer.MediaType)}
	}
	d.url = base + "/blobs/" + layer.Digest
	return digest, nil
}

// ofPlatform reads the manifest for Linux and the architecture of the pod from a list.
func (d *download) ofPlatform(base string, list manifest) (manifest, error) {
	for _, one := range list.Manifests {
		if one.Platform.OS != "linux" || one.Platform.Architecture != runtime.GOARCH {
			continue
		}
		if _, is := sumIn(one.Digest); !is {
			return manifest{}, permanentError{fmt.Sprintf(
				"the manifest for linux/%s has the digest %q; sha256 is accepted", runtime.GOARCH, one.Digest)}
		}
		return d.manifest(base, one.Digest)
	}
	return manifest{}, permanentError{"the image has no manifest for linux/" + runtime.GOARCH}
}

// manifest reads a manifest, with a token if the registry asks for one. What is read by a digest must
// have it.
func (d *download) manifest(base, reference string) (m manifest, err error) {
	raw, err := d.read(base + "/manifests/" + reference)
	if challenge, is := errors.AsType[challengeError](err); is {
		if err = d.login(challenge); err == nil {
			raw, err = d.read(base + "/manifests/" + reference)
		}
	}
	if err != nil {
		return m, fmt.Errorf("manifest %s: %w", reference, err)
	}
	if want, is := sumIn(reference); is {
		if sum := sha256.Sum256(raw); !strings.EqualFold(hex.EncodeToString(sum[:]), want) {
			return m, permanentError{fmt.Sprintf("the registry answered for the manifest %s with another, whose "+
				"digest is sha256:%x", reference, sum)}
		}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, permanentError{"the manifest is no JSON"}
	}
	return m, nil
}

// challengeError is an answer that asks for a token.
type challengeError struct{ realm, query string }

// Error implements error.
func (challengeError) Error() string {
	return "the registry refuses the token; give a spec.headersSecret with the header Authorization"
}

func (d *download) read(address string) ([]byte, error) {
	header := d.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept", strings.Join(slices.Concat(manifestTypes, indexTypes), ", "))
	answer, err := get(d.ctx, d.client, d.secret, address, header)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if challenge, is := challengeOf(answer); is {
		return nil, challenge
	}
	if err := statusError(answer); err != nil {
		return nil, err
	}
	return io.ReadAll(http.MaxBytesReader(nil, answer.Body, longestManifest))
}

var challengeForm = regexp.MustCompile(`(realm|service|scope)="([^"]*)"`)

// challengeOf returns where a token is got.
func challengeOf(answer *http.Response) (c challengeError, is bool) {
	text, isBearer := strings.CutPrefix(answer.Header.Get("Www-Authenticate"), "Bearer ")
	if answer.StatusCode != http.StatusUnauthorized || !isBearer {
		return c, false
	}
	query := url.Values{}
	for _, m := range challengeForm.FindAllStringSubmatch(text, -1) {
		if m[1] == "realm" {
			c.realm = m[2]
		} else {
			query.Set(m[1], m[2])
		}
	}
	c.query = query.Encode()
	return c, strings.HasPrefix(c.realm, "https://")
}

// login gets a token, with the headers of the secret if both the registry and the host of its tokens may have
// them. The token takes their place from then on.
func (d *download) login(c challengeError) error {
	answer, err := get(d.ctx, d.client, d.account, c.realm+"?"+c.query, http.Header{})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := statusError(answer); err != nil {
		return err
	}
	var token struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(nil, answer.Body, longestManifest)).Decode(&token); err != nil {
		return permanentError{"the token of the registry is no JSON"}
	}
	if token.Token == "" {
		token.Token = token.AccessToken
	}
	d.header, d.secret = http.Header{"Authorization": {"Bearer " + token.Token}}, &secret{}
	return nil
}
