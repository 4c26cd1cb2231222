package snapshotmetadata

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// Reviewer asks the API server about clients; [kube.Reviewer] is one.
type Reviewer interface {
	// Token reviews a token for an audience.
	Token(ctx context.Context, token, audience string) (authenticationv1.TokenReviewStatus, error)
	// Access reviews what a user may do.
	Access(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (
		authorizationv1.SubjectAccessReviewStatus, error)
}
