package rbd

import (
	"context"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Watcher is a client that has an image open.
type Watcher struct {
	Address string `json:"address"`
}

// Watchers lists the clients that have the image of a volume open.
func (p Pool) Watchers(ctx context.Context, o handle.Object) ([]Watcher, error) {
	return p.watchers(ctx, ImageName(o))
}

// status is what rbd status says of an image.
type status struct {
	Watchers  []Watcher `json:"watchers"`
	Migration *struct {
		State string `json:"state"`
	} `json:"migration"`
}

func (p Pool) watchers(ctx context.Context, image string) ([]Watcher, error) {
	var s status
	err := p.ask(ctx, &s, "status", p.spec(image))
	return s.Watchers, err
}

func (p Pool) isMigrating(ctx context.Context, image string) (bool, error) {
	var s status
	err := p.ask(ctx, &s, "status", p.spec(image))
	return s.Migration != nil, err
}

// InUse is the error for an image that a client has open.
func (p Pool) InUse(o handle.Object, w []Watcher) error {
	var addresses []string
	for _, one := range w {
		addresses = append(addresses, one.Address)
	}
	return fault.InUse.Errorf(
		"image %s is in use by %s; unpublish it there. If that node is dead for good: ceph osd blocklist add %s",
		p.spec(ImageName(o)),
		strings.Join(addresses, ", "),
		strings.Join(addresses, " && ceph osd blocklist add "),
	)
}
