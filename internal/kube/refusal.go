package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsUnserved reports whether the API server does not serve the kind of an object: its custom
// resource is not installed, or is not any more.
func IsUnserved(err error) bool {
	return meta.IsNoMatchError(err) ||
		apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// IsRefusal reports whether an error is a response of the API server that a retry would not change.
func IsRefusal(err error) bool {
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
		return false
	}
	for _, passing := range []func(error) bool{
		apierrors.IsTooManyRequests, apierrors.IsInternalError, apierrors.IsServiceUnavailable,
		apierrors.IsServerTimeout,
		apierrors.IsTimeout,
	} {
		if passing(err) {
			return false
		}
	}
	return true
}
