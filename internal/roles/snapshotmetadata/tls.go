package snapshotmetadata

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// tlsSettings are the flags about TLS (CB-9).
type tlsSettings struct {
	least  string
	suites []string
	curves []string
}

func (s *tlsSettings) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.least, "tls-min-version", "", "oldest `version` of TLS: VersionTLS12 or VersionTLS13; empty for "+
		"VersionTLS12")
	f.StringSliceVar(&s.suites, "tls-cipher-suites", nil,
		"cipher suites of TLS 1.2, as Go `names` them; empty for those of Go")
	f.StringSliceVar(&s.curves, "tls-curve-preferences", nil, "key exchanges in order of preference, as Go `names` "+
		"them: X25519MLKEM768, X25519, CurveP256, CurveP384 or CurveP521; empty for those of Go")
}

var (
	versions = map[string]uint16{
		"": tls.VersionTLS12, "VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
	}
	curves = map[string]tls.CurveID{
		"X25519MLKEM768": tls.X25519MLKEM768, "X25519": tls.X25519, "CurveP256": tls.CurveP256,
		"CurveP384": tls.CurveP384, "CurveP521": tls.CurveP521,
	}
)

// config returns the configuration without a certificate, or the first mistake.
func (s *tlsSettings) config() (*tls.Config, error) {
	least, ok := versions[s.least]
	if !ok {
		return nil, fmt.Errorf("--tls-min-version=%q: must be VersionTLS12 or VersionTLS13", s.least)
	}
	cfg := &tls.Config{MinVersion: least}
	known := tls.CipherSuites() // without the insecure ones
	for _, name := range s.suites {
		i := slices.IndexFunc(known, func(c *tls.CipherSuite) bool { return c.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("--tls-cipher-suites=%q: Go has no secure cipher suite of this name", name)
		}
		cfg.CipherSuites = append(cfg.CipherSuites, known[i].ID)
	}
	for _, name := range s.curves {
		curve, ok := curves[strings.TrimSpace(name)]
		if !ok {
			return nil, fmt.Errorf(
				"--tls-curve-preferences=%q: must be X25519MLKEM768, X25519, CurveP256, CurveP384 or CurveP521", name,
			)
		}
		cfg.CurvePreferences = append(cfg.CurvePreferences, curve)
	}
	return cfg, nil
}
