package csirpc

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Listing says how the volumes of a driver are listed.
type Listing struct {
	Timeout time.Duration // of one page, so that a list of many pages comes to an end (AT-H12)
	Entries int32         // of one page; 0 leaves it to the driver
}

// MostPages bounds a list, in case a driver never returns the last page.
const MostPages = 10_000

// ListVolumes calls each with all volumes that the driver lists. An entry can be nil.
func ListVolumes(
	ctx context.Context, driver csi.ControllerClient, l Listing, each func(*csi.ListVolumesResponse_Entry),
) error {
	token := ""
	for range MostPages {
		page, err := l.page(ctx, driver, token)
		if err != nil {
			return fmt.Errorf("ListVolumes: %w", err)
		}
		for _, entry := range page.GetEntries() {
			each(entry)
		}
		if token = page.GetNextToken(); token == "" {
			return nil
		}
	}
	return fmt.Errorf("ListVolumes: no end after %d pages", MostPages)
}

func (l Listing) page(
	ctx context.Context, driver csi.ControllerClient, token string,
) (*csi.ListVolumesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	return driver.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token, MaxEntries: l.Entries})
}
