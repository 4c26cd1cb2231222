package httpsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/purser-csi/purser/internal/populate/pod"
)

// Source has the fields of an HTTPSource that the flags of the pod have.
type Source struct {
	URL        string
	SHA256     string
	Format     string
	FileName   string
	SecretDir  string
	Namespace  string // of the HTTPSource
	AllowLocal bool

	Pause func(ctx context.Context, failed int) error // between attempts; nil for a time that doubles
	Idle  time.Duration                               // that a connection may be silent for; 0 for a minute
}

// Validate returns the first setting that is refused.
func (s Source) Validate(block bool) error {
	return spec{url: s.URL, sha256: s.SHA256, format: s.Format, fileName: s.FileName}.validate(block)
}

// syncEvery is after how many bytes the data is flushed, and the state says so.
const syncEvery = 64 << 20

// Write is the [pod.Function] of HTTPSources.
func Write(ctx context.Context, source Source, target pod.Target, progress func(pod.Progress)) error {
	err := write(ctx, source, target, progress)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the volume is full; ask for more in spec.resources.requests.storage of the claim: %w", err)
	}
	return fmt.Errorf("spec.url %q: %w", Shown(source.URL), err)
}

func write(ctx context.Context, source Source, target pod.Target, progress func(pod.Progress)) error {
	from, err := source.download(ctx, progress)
	if err != nil {
		return err
	}
	defer from.Close()
	if target.Block {
		return writeDevice(source, from, target)
	}
	root, err := os.OpenRoot(target.Path)
	if err != nil {
		return err
	}
	defer root.Close()
	if source.Format == formatRaw {
		return writeFile(source, from, root, target.Size)
	}
	return unpackInto(source, from, root, target.Size)
}

// download returns the reader of the file, or of the layer of an image.
func (s *Source) download(ctx context.Context, progress func(pod.Progress)) (*download, error) {
	secret, err := readSecret(s.SecretDir, s.Namespace)
	if err != nil {
		return nil, err
	}
	client, err := newClient(secret, s.AllowLocal)
	if err != nil {
		return nil, err
	}
	d := &download{
		ctx: ctx, client: client, secret: secret, url: s.URL, pause: s.Pause, idle: s.Idle, progress: progress,
		size: -1,
	}
	if d.pause == nil {
		d.pause = pauseAfter
	}
	if d.idle == 0 {
		d.idle = time.Minute
	}
	if strings.HasPrefix(s.URL, schemeOCI) {
		digest, err := d.resolveImage()
		if err != nil {
			return nil, err
		}
		if s.SHA256 != "" && s.SHA256 != digest {
			return nil, permanentError{fmt.Sprintf(
				"the layer has the digest sha256:%s, and spec.sha256 is %s", digest, s.SHA256)}
		}
		s.SHA256 = digest
	}
	d.exact = s.SHA256 != ""
	return d, nil
}

// writeDevice writes to a block device, from the begin: it has no room for the state of the last attempt.
func writeDevice(source Source, from *download, target pod.Target) error {
	device, err := os.OpenFile(target.Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()
	limit := target.Size
	if end, err := device.Seek(0, io.SeekEnd); err == nil && end > 0 {
		limit = end
	}
	sum := sha256.New()
	if err := copyAnew(from, device, sum, copying{limit, device.Sync}); err != nil {
		return err
	}
	return errors.Join(compare(source, sum), device.Sync())
}

// writeFile writes to a file in the root of a filesystem, from where the last attempt was.
func writeFile(source Source, from *download, root *os.Root, limit int64) error {
	now, last, err := beginState(source, root)
	if err != nil {
		return err
	}
	file, err := root.OpenFile(source.FileName, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	if last.isSame(now) {
		again := &again{pod.Progress{Done: last.Synced, Total: max(last.Size, 0)}, from.progress}
		now.Synced, err = resume(file, io.MultiWriter(sum, again), last.Synced)
		now.Mark, now.Size = last.Mark, last.Size
	}
	if err != nil {
		return err
	}
	if now.Synced > 0 {
		from.at, from.mark, from.size = now.Synced, now.Mark, now.Size
	}
	if err := now.write(root); err != nil {
		return err
	}
	save := func() error {
		if err := file.Sync(); err != nil {
			return err
		}
		now.Mark, now.Size, now.Synced = from.mark, from.size, from.at
		return now.write(root)
	}
	err = copyAnew(from, file, sum, copying{limit, save})
	if err == nil {
		err = file.Truncate(from.at) // what was there before may be longer
	}
	if err == nil {
		err = compare(source, sum)
	}
	if errors.Is(err, errChanged) || errors.Is(err, errSum) { // the next attempt begins anew, or removes the file
		return errors.Join(err, newState(source).write(root))
	}
	if err != nil {
		return errors.Join(err, save())
	}
	return errors.Join(file.Sync(), removeState(root))
}

// beginState returns the state of the source, and that of the last attempt if it was of the same one. What an
// attempt of another source has left is removed. The state is there before the file.
func beginState(source Source, root *os.Root) (now state, last *state, err error) {
	now = newState(source)
	if last, err = readState(root); err != nil || last.isSame(now) {
		return now, last, err
	}
	if last != nil {
		err = removeUnpacked(root)
	}
	if err == nil {
		err = now.write(root)
	}
	return now, nil, err
}

// resume reads what the last attempt wrote into the checksum, and returns how much that is. The file is at
// its end then.
func resume(file *os.File, sum io.Writer, synced int64) (int64, error) {
	info, err := file.Stat()
	if err != nil || info.Size() < synced {
		return 0, err
	}
	n, err := io.CopyN(sum, file, synced)
	return n, err
}

// copying says how much is copied at most, and what is called meanwhile.
type copying struct {
	limit int64
	save  func() error // now and then
}

// copyAnew is copyAll, from the begin if the file at the URL is not the one of which a part is written.
func copyAnew(from *download, to io.WriteSeeker, sum hash.Hash, c copying) error {
	if _, err := to.Seek(from.at, io.SeekStart); err != nil {
		return err
	}
	err := copyAll(from, to, sum, c)
	if !errors.Is(err, errChanged) {
		return err
	}
	from.Close()
	from.at, from.size, from.mark = 0, -1, ""
	sum.Reset()
	if _, err := to.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return copyAll(from, to, sum, c)
}

// copyAll copies from the download to a file and the checksum.
func copyAll(from *download, to io.Writer, sum hash.Hash, c copying) error {
	buffer := make([]byte, 1<<20)
	for saved := from.at; ; {
		n, err := from.Read(buffer)
		if tooLarge := checkSize(from, c.limit); tooLarge != nil {
			return tooLarge
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
			sum.Write(buffer[:n])
			from.said()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if from.at-saved >= syncEvery {
			if err := c.save(); err != nil {
				return err
			}
			saved = from.at
		}
	}
}

// checkSize refuses a file that is larger than the volume, as soon as that is known.
func checkSize(from *download, limit int64) error {
	if limit <= 0 || from.at <= limit && from.size <= limit {
		return nil
	}
	return permanentError{fmt.Sprintf("the file has %d bytes or more, and the volume %d; ask for that much in "+
		"spec.resources.requests.storage of the claim", max(from.at, from.size), limit)}
}

// errSum says that the data is not what the checksum says.
var errSum = errors.New("the checksum differs")

// compare compares the checksum of the data.
func compare(source Source, sum hash.Hash) error {
	if source.SHA256 == "" {
		return nil
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != source.SHA256 {
		return fmt.Errorf("%w: spec.sha256 is %s, and the file has %s; correct the one that is wrong",
			errSum, source.SHA256, got)
	}
	return nil
}
