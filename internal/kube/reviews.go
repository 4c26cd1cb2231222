package kube

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewTimeout bounds one review.
const reviewTimeout = 10 * time.Second

// Reviewer asks an API server about the clients of a server.
type Reviewer struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
}

// NewReviewer returns the reviewer of an API server.
func NewReviewer(api *rest.Config) (*Reviewer, error) {
	own := rest.CopyConfig(api)
	own.Timeout = reviewTimeout
	tokens, err := authenticationclient.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	access, err := authorizationclient.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	return &Reviewer{tokens.TokenReviews(), access.SubjectAccessReviews()}, nil
}

// Token reviews a token for an audience; an empty one is that of the API server. The token
// is in no log (CB-18).
func (r *Reviewer) Token(
	ctx context.Context, token, audience string,
) (authenticationv1.TokenReviewStatus, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if audience != "" {
		review.Spec.Audiences = []string{audience}
	}
	answer, err := r.tokens.Create(unlogged(ctx), review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.TokenReviewStatus{}, err
	}
	return answer.Status, nil
}

// Access reviews what a user may do.
func (r *Reviewer) Access(
	ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	answer, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return authorizationv1.SubjectAccessReviewStatus{}, err
	}
	return answer.Status, nil
}
