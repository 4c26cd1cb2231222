package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// IsRefusal reports whether the API server has answered, and would answer the same again.
func IsRefusal(err error) bool {
	if answer := apierrors.APIStatus(nil); !errors.As(err, &answer) {
		return false
	}
	for _, passing := range []func(error) bool{
		apierrors.IsTooManyRequests, apierrors.IsInternalError, apierrors.IsServiceUnavailable, apierrors.IsServerTimeout, apierrors.IsTimeout,
	} {
		if passing(err) {
			return false
		}
	}
	return true
}
