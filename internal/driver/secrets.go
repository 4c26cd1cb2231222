package driver

import (
	"context"

	"google.golang.org/grpc"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// handSecrets gives the secrets of any request to the backend. No layer above the backend reads
// them.
func handSecrets(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if r, ok := request.(interface{ GetSecrets() map[string]string }); ok && len(r.GetSecrets()) > 0 {
		ctx = backend.WithSecrets(ctx, backend.NewSecrets(r.GetSecrets()))
	}
	return handle(ctx, request)
}
