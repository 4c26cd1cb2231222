package rules

import (
	"slices"

	"google.golang.org/grpc/codes"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// CheckToken refuses a token that the API server does not accept for the audience. The audience
// must be in the review's answer: an authenticator that knows no audiences accepts tokens for the
// API server (CB-14).
func CheckToken(review authenticationv1.TokenReviewStatus, audience string) *Refusal {
	if !review.Authenticated || review.User.Username == "" || !slices.Contains(review.Audiences, audience) {
		return refuse(codes.Unauthenticated, "unauthenticated user")
	}
	return nil
}

// AccessReview returns the question whether a user may get the VolumeSnapshots of a namespace. It
// has no name, as upstream's: a permission for single names is not enough (CB-14).
func AccessReview(user authenticationv1.UserInfo, namespace string) authorizationv1.SubjectAccessReviewSpec {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots",
			Namespace: namespace,
		},
	}
}

// CheckAccess refuses a user without the permission.
func CheckAccess(review authorizationv1.SubjectAccessReviewStatus) *Refusal {
	if review.Allowed && !review.Denied {
		return nil
	}
	return refuse(
		codes.PermissionDenied, "user does not have permissions to perform the operation: %s", review.Reason,
	)
}
