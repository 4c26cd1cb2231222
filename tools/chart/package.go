package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

// semantic is what Helm takes as the version of a chart; it cannot have the build metadata of a tag.
var semantic = regexp.MustCompile(`^v(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// pack writes the chart as an archive, whose images have the given version. The chart has it too if it
// is a semantic version, as that of a release is.
func pack(args []string) error {
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	version := flags.String("version", "", "version of the images")
	created := flags.Int64("created", 0, "time in the archive, in seconds since 1970; that of the commit")
	out := flags.String("out", ".", "folder for the archive")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *version == "" || flags.NArg() != 1 {
		return errors.New("package needs -version and the folder of the chart")
	}
	c, err := loader.Load(flags.Arg(0))
	if err != nil {
		return err
	}
	c.Metadata.AppVersion = *version
	if semantic.MatchString(*version) {
		c.Metadata.Version = strings.TrimPrefix(*version, "v")
	}
	file, err := chartutil.Save(c, *out)
	if err == nil {
		err = setTimes(file, time.Unix(*created, 0).UTC())
	}
	if err == nil {
		fmt.Println(file)
	}
	return err
}

// setTimes writes the archive again with one time in all its files, so that the same chart yields the
// same bytes: Helm takes the times of the files, or that of the call.
func setTimes(file string, at time.Time) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	compressed, err := gzip.NewReader(bytes.NewReader(old))
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Extra, z.Comment = compressed.Extra, compressed.Comment
	w := tar.NewWriter(z)
	for files := tar.NewReader(compressed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		plain := &tar.Header{
			Name: h.Name, Size: h.Size, Mode: h.Mode, Typeflag: h.Typeflag, ModTime: at, Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(plain); err != nil {
			return err
		}
		if _, err := io.Copy(w, files); err != nil { //nolint:gosec // the archive is our own
			return err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644) //nolint:gosec // readable by all users
}
