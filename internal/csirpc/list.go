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
func (c *Caller) ListVolumes(
	ctx context.Context, driver csi.ControllerClient, l Listing, each func(*csi.ListVolumesResponse_Entry),
) error {
	token := ""
	for range MostPages {
		page, failure := c.page(ctx, driver, l, token)
		if failure != nil {
			return fmt.Errorf("ListVolumes: %s", failure.Words())
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

func (c *Caller) page(
	ctx context.Context, driver csi.ControllerClient, l Listing, token string,
) (page *csi.ListVolumesResponse, failure *Failure) {
	failure = c.Do(ctx, Call{
		Method: "ListVolumes", Timeout: l.Timeout,
		Send: func(ctx context.Context, _ map[string]string) (err error) {
			page, err = driver.ListVolumes(ctx, &csi.ListVolumesRequest{StartingToken: token, MaxEntries: l.Entries})
			return err
		},
	})
	return page, failure
}
