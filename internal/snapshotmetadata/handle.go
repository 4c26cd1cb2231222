package snapshotmetadata

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/snapshotmetadata/rules"
	"github.com/purser-csi/purser/internal/snapshotmetadata/wire"
)

// The names of the methods in the metric (CB-20). Upstream counts a delta as MetadataAllocated
// (CB-H3).
const (
	methodAllocated = "MetadataAllocated"
	methodDelta     = "MetadataDelta"
)

// GetMetadataAllocated implements wire.Server.
func (s *Service) GetMetadataAllocated(r *wire.AllocatedRequest, to wire.Stream) error {
	return s.handle(rules.Request{
		Token: r.SecurityToken, Namespace: r.Namespace, Snapshot: r.SnapshotName, Offset: r.StartingOffset,
		MaxResults: r.MaxResults,
	}, methodAllocated, to)
}

// GetMetadataDelta implements wire.Server.
func (s *Service) GetMetadataDelta(r *wire.DeltaRequest, to wire.Stream) error {
	return s.handle(rules.Request{
		Token: r.SecurityToken, Namespace: r.Namespace, Snapshot: r.TargetSnapshotName, IsDelta: true,
		Base: r.BaseSnapshotID, Offset: r.StartingOffset, MaxResults: r.MaxResults,
	}, methodDelta, to)
}

// handle answers a request, within the longest duration of a stream (CB-6). A client that stopped
// reading blocks Send beyond that, so the answer is given in a goroutine, which ends when the
// stream has ended.
func (s *Service) handle(r rules.Request, method string, to wire.Stream) error {
	began := time.Now()
	log := s.log.WithValues("method", method, "snapshot", r.Namespace+"/"+r.Snapshot)
	ctx, cancel := context.WithTimeout(logr.NewContext(to.Context(), log), s.cfg.Longest)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- s.answerSafely(ctx, r, to) }()
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = ctx.Err()
	}
	final := s.statusOf(err)
	if final.Code() != codes.OK {
		log.V(2).Info("the request failed", "code", final.Code().String(), "problem", final.Message())
	}
	if s.cfg.Ended != nil {
		s.cfg.Ended(s.driver(), method, final.Code(), time.Since(began))
	}
	return final.Err()
}

// statusOf returns the status of an error.
func (s *Service) statusOf(err error) *status.Status {
	refusal, isRefusal := errors.AsType[*rules.Refusal](err)
	switch {
	case err == nil:
		return status.New(codes.OK, "")
	case isRefusal:
		return status.New(refusal.Code, printable.Text(refusal.Text))
	case errors.Is(err, context.DeadlineExceeded):
		return status.New(codes.DeadlineExceeded, fmt.Sprintf(
			"the stream took longer than %s; resume at the end of the last block", s.cfg.Longest))
	case errors.Is(err, context.Canceled):
		return status.New(codes.Canceled, "the client has ended the stream")
	}
	return status.New(codes.Internal, "failed to send response: "+printable.Text(err.Error()))
}

// answerSafely returns a panic as an error: one request must not end those of other clients
// (CB-H2).
func (s *Service) answerSafely(ctx context.Context, r rules.Request, to wire.Stream) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			logr.FromContextOrDiscard(ctx).Error(
				fmt.Errorf("panic: %v", problem), "a request was not answered", "stack", string(debug.Stack()))
			err = &rules.Refusal{Code: codes.Internal, Text: "the service has failed; its log says why"}
		}
	}()
	return s.answer(ctx, r, to)
}

// answer checks a request in the order of CB-14, and passes the driver's stream on.
func (s *Service) answer(ctx context.Context, r rules.Request, to wire.Stream) error {
	if refusal := rules.CheckRequest(r); refusal != nil {
		return refusal
	}
	user, err := s.admit(ctx, r)
	if err != nil {
		return err
	}
	driver, isReady := s.ready()
	if !isReady {
		return rules.NotReady()
	}
	release, refusal := s.limits.open(user)
	if refusal != nil {
		return refusal
	}
	defer release()
	found, refusal := s.resolve(ctx, driver, r)
	if refusal != nil {
		return orEnded(ctx, refusal)
	}
	logr.FromContextOrDiscard(ctx).V(4).Info("calling CSI driver", "handle", found.handle, "base", found.base,
		"offset", r.Offset)
	return orEnded(ctx, s.pass(ctx, r, found, to))
}

// admit returns the name of the user that the token is of, and who has access to the namespace.
func (s *Service) admit(ctx context.Context, r rules.Request) (string, error) {
	driver := s.driver()
	if driver == "" {
		return "", rules.NotReady() // the object with the audience has the name of the driver
	}
	release, err := s.limits.review(ctx, s.wait())
	if err != nil {
		return "", err
	}
	defer release()
	audience, refusal := s.audience(ctx, driver)
	if refusal != nil {
		return "", orEnded(ctx, refusal)
	}
	token, err := s.cfg.Reviews.Token(ctx, r.Token, audience)
	if err != nil {
		return "", orEnded(ctx, failed(codes.Internal, "failed to authenticate user", err))
	}
	if refusal := rules.CheckToken(token, audience); refusal != nil {
		return "", refusal
	}
	access, err := s.cfg.Reviews.Access(ctx, rules.AccessReview(token.User, r.Namespace))
	if err != nil {
		return "", orEnded(ctx, failed(codes.Internal, "failed to authorize the user", err))
	}
	if refusal := rules.CheckAccess(access); refusal != nil {
		return "", refusal
	}
	return token.User.Username, nil
}

// orEnded returns the error of the context if that has ended: it is why the rest failed.
func orEnded(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
