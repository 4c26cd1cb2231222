package snapshotmetadata

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Reviewer asks the API server about clients.
type Reviewer interface {
	// Token reviews a token for an audience.
	Token(ctx context.Context, token, audience string) (authenticationv1.TokenReviewStatus, error)
	// Access reviews what a user may do.
	Access(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (
		authorizationv1.SubjectAccessReviewStatus, error)
}

// requestTimeout bounds one request to the API server.
const requestTimeout = 10 * time.Second

// apiReviewer is the reviewer of an API server.
type apiReviewer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
}

// NewReviewer returns the reviewer of an API server.
func NewReviewer(api *rest.Config) (Reviewer, error) {
	own := rest.CopyConfig(api)
	own.Timeout = requestTimeout
	tokens, err := authenticationclient.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	access, err := authorizationclient.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	return apiReviewer{tokens.TokenReviews(), access.SubjectAccessReviews()}, nil
}

// Token implements Reviewer. The request has no logger: client-go logs whole bodies at -v=8, and
// this one has the token (CB-18).
func (r apiReviewer) Token(
	ctx context.Context, token, audience string,
) (authenticationv1.TokenReviewStatus, error) {
	answer, err := r.tokens.Create(logr.NewContext(ctx, logr.Discard()), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return answer.Status, nil
}

// Access implements Reviewer.
func (r apiReviewer) Access(
	ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	answer, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return answer.Status, nil
}
