package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// pushing is where a release goes.
type pushing struct {
	from, registry string
	insecure       bool
}

// push sends the layout of a release. Credentials are those of docker's and podman's configuration
// files. A tag that leads to something else is never replaced, and this is checked before anything is
// sent; what is there already is not sent again.
func (p pushing) push(ctx context.Context, out io.Writer) error {
	if _, err := checkSums(p.from); err != nil {
		return err
	}
	s, err := readLayout(filepath.Join(p.from, layoutFolder))
	if err != nil {
		return err
	}
	to := newRemote(ctx, p.registry, p.insecure)
	refs := make([]name.Tag, len(s.entries))
	for i, e := range s.entries {
		if refs[i], err = to.tag(e.ref); err != nil {
			return fmt.Errorf("-registry=%s: %w", p.registry, err)
		}
		if err := to.checkFree(refs[i], e); err != nil {
			return err
		}
	}
	for i, e := range s.entries {
		if e.index != nil {
			err = remote.WriteIndex(refs[i], e.index, to.options...)
		} else {
			err = remote.Write(refs[i], e.image, to.options...)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", refs[i], err)
		}
		fmt.Fprintf(out, "%s@%s\n", refs[i], e.digest)
	}
	return nil
}

// checkFree fails if the tag is that of something else.
func (r remoteStore) checkFree(ref name.Tag, e entry) error {
	head, err := remote.Head(ref, r.options...)
	if failure, ok := errors.AsType[*transport.Error](err); ok && failure.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ref, err)
	}
	if head.Digest != e.digest {
		return fmt.Errorf("%s is %s in the registry, and %s here: a release is not replaced; "+
			"give another version, or delete the tag", ref, head.Digest, e.digest)
	}
	return nil
}
