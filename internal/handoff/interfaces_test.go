package handoff_test

import (
	"github.com/purser-csi/purser/internal/binder"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/provision"
)

var (
	_ provision.HandedOver = (*handoff.Queue)(nil)
	_ binder.HandOver      = (*handoff.Queue)(nil)
)
