package sidecar

import (
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// called returns a function that notes the calls of a role to its driver. The questions that a role
// repeats are left out.
func called(spans *telemetry.Spans, role string) func(csirpc.Observed) {
	return func(o csirpc.Observed) {
		name := path.Base(o.Method)
		if o.Volume == "" && (name == "Probe" || strings.HasPrefix(name, "Get")) {
			return
		}
		spans.Add(telemetry.Span{
			From: o.Began, To: o.Began.Add(o.Took), Role: role, Name: name, Code: o.Code, Volume: o.Volume,
		})
	}
}

// decided returns a function that notes the decisions that had an effect.
func decided(spans *telemetry.Spans) func(reconcile.Run) {
	return func(run reconcile.Run) {
		if run.Acted == "" {
			return
		}
		object := fmt.Sprint(run.Key)
		if len(run.Users) > 0 {
			if o, ok := run.Users[0].(client.Object); ok {
				object = strings.TrimPrefix(client.ObjectKeyFromObject(o).String(), "/")
			}
		}
		spans.Add(telemetry.Span{
			From: run.Began, To: run.Ended, Role: run.Controller, Name: string(run.Acted), Object: object,
		})
	}
}
