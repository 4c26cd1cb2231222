package ui

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	pages "github.com/purser-csi/purser/internal/ui"
)

const (
	// pauseOfScrapes is between two reads of the metrics of the roles.
	pauseOfScrapes = 10 * time.Second
	// patienceOfScrape bounds one read, and mostOfMetrics its size.
	patienceOfScrape = 5 * time.Second
	mostOfMetrics    = 64 << 20
)

// scraper reads the metrics of roles.
type scraper struct {
	of   []scraped
	note func(string)

	mu          sync.Mutex
	first, last *pages.Scrape
}

// scraped is an endpoint with its client, which follows no redirect.
type scraped struct {
	endpoint string
	client   *http.Client
}

// rates returns the metrics since the first read; nil until there are two.
func (s *scraper) rates() *pages.Rates {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return nil
	}
	return &pages.Rates{First: s.first, Last: s.last}
}

// follow reads the metrics until the context ends.
func (s *scraper) follow(ctx context.Context) {
	tick := time.NewTicker(pauseOfScrapes)
	defer tick.Stop()
	for {
		s.read(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// read reads the metrics of all roles. Without those of one of them the sums would go down, so they
// are left out then.
func (s *scraper) read(ctx context.Context, now time.Time) {
	scrape := pages.NewScrape(now)
	for _, role := range s.of {
		if err := role.ask(ctx, scrape); err != nil {
			if ctx.Err() == nil {
				s.note(fmt.Sprintf("%s: its metrics cannot be read: %v", role.endpoint, err))
			}
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = scrape
		return
	}
	s.last = scrape
}

func (s scraped) ask(ctx context.Context, into *pages.Scrape) error {
	ctx, stop := context.WithTimeout(ctx, patienceOfScrape)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.endpoint, "/")+"/metrics", nil)
	if err != nil {
		return err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", answer.Status)
	}
	return into.Add(io.LimitReader(answer.Body, mostOfMetrics))
}
